// A tokenizer made of steps, as tokenizer.json describes it: added tokens, normalization, splitting, a model, a frame
// and a way back. Files of other kinds are read into the same parts.
#pragma once

#include <memory>

#include "data/tokenizer.h"
#include "data/tokenizers/added_tokens.h"
#include "data/tokenizers/decoders.h"
#include "data/tokenizers/model.h"

namespace amp {

struct PipelineParts {
  TextStep normalizer, pre_tokenizer;  // null: nothing is done
  std::unique_ptr<TokenModel> model;
  std::vector<AddedToken> added;
  std::vector<DecodeStep> decoders;  // none: tokens between spaces
  Frame single, pair;                // empty: the texts alone
  SpecialIds special;
  bool trim_places = false;       // spaces at the ends of a token are outside its place
  bool add_prefix_space = false;  // one of them was put before the text
  bool spaced_words = false;      // a word of a text given word by word has a space before it
  bool cut_left = false;
};

std::unique_ptr<Tokenizer> make_pipeline(PipelineParts parts);

}  // namespace amp
