// A tokenizer made of steps, as tokenizer.json describes it: added tokens, normalizer, pre-tokenizer, model, template
// and decoders. Files of other kinds are read into the same parts.
#pragma once

#include <memory>

#include "data/tokenizer.h"
#include "data/tokenizers/added_tokens.h"
#include "data/tokenizers/decoders.h"
#include "data/tokenizers/model.h"

namespace amp {

struct PipelineParts {
  TextStep normalizer, pre_tokenizer;  // null: none
  std::unique_ptr<TokenModel> model;
  std::vector<AddedToken> added;
  std::vector<DecodeStep> decoders;  // empty: tokens are joined with spaces
  TokenTemplate single, pair;        // empty: only the texts
  SpecialIds special;
  bool trim_places = false;       // offsets exclude spaces at the ends of a token
  bool add_prefix_space = false;  // a space was put before the text
  bool spaced_words = false;      // texts given as words get a space before each word
  bool cut_left = false;
};

std::unique_ptr<Tokenizer> make_pipeline(PipelineParts parts);

}  // namespace amp
