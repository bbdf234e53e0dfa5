// Masking for masked language models (Devlin et al., "BERT", NAACL 2019, appendix A.1). 80 % of the chosen tokens
// become the mask token, 10 % become a random token of the vocabulary, and 10 % stay. Each epoch makes a new choice, as
// in RoBERTa.
#pragma once

#include <memory>
#include <vector>

#include "data/dataset.h"
#include "data/tokenizer.h"

namespace amp {

struct MaskingOptions {
  double probability = 0.15;  // probability that a token is chosen
  bool whole_words = false;   // chooses all tokens of a word, or none
  uint64_t seed = 42;
};

// Masks tokens of `data`, whose labels are its ids; labels of tokens that are not chosen become kIgnoreIndex. Special
// tokens are never chosen. The choice is a pure function of (seed, epoch, sample, position); evaluation uses one fixed
// choice. Throws E_MASK_TOKEN (exit 5) if the tokenizer has no mask token.
std::unique_ptr<Dataset> make_masked_dataset(std::shared_ptr<const Dataset> data, const Tokenizer& tokenizer,
                                             const std::vector<InputSpec>& inputs, const MaskingOptions& options);

// Returns for each token id of the vocabulary whether the token continues the word of the token before it in a text.
// WordPiece marks such tokens with "##". Byte-level BPE marks tokens that begin a word with U+0120, and SentencePiece
// with U+2581. Without any marks the result is false for all.
std::vector<bool> tokens_within_words(const Tokenizer& tokenizer);

}  // namespace amp
