// Masked language models: some tokens of each text are hidden, and these are what is learnt (Devlin et al., "BERT",
// NAACL 2019, appendix A.1). Of the chosen ones 80 % become the mask token, 10 % another token of the vocabulary, 10 %
// stay; others are drawn in every epoch, as RoBERTa does it.
#pragma once

#include <memory>
#include <vector>

#include "data/dataset.h"
#include "data/tokenizer.h"

namespace amp {

struct MaskingOptions {
  double probability = 0.15;  // that a token is chosen
  bool whole_words = false;   // all tokens of a word, or none
  uint64_t seed = 42;
};

// Hides tokens of `data`, whose labels are its ids: labels of tokens that are not chosen become kIgnoreIndex. Special
// tokens are never chosen. What is drawn is a pure function of (seed, epoch, sample, position); evaluation sees one
// choice for all times. E_MASK_TOKEN (exit 5): the tokenizer has no mask token.
std::unique_ptr<Dataset> make_masked_dataset(std::shared_ptr<const Dataset> data, const Tokenizer& tokenizer,
                                             const std::vector<InputSpec>& inputs, const MaskingOptions& options);

// By id: whether the token goes on with the word of the token before it. As vocabularies mark it: "##" before
// WordPiece's, no U+0120 (byte-level) or U+2581 (SentencePiece) before others'. Where nothing is marked, none does.
std::vector<bool> tokens_within_words(const Tokenizer& tokenizer);

}  // namespace amp
