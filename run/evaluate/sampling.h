// Chooses the next token of a text from its logits, as transformers' generate() does.
#pragma once

#include <cstdint>
#include <span>

namespace amp {

// Applied in the order of transformers: repetition_penalty, temperature, top_k, top_p.
struct Sampling {
  bool draw = false;  // false: always the likeliest token, and the first one of equally likely tokens
  double temperature = 1;
  // Samples from the `top_k` likeliest tokens, and from tokens that are as likely as the last of these; 0: from all
  // tokens.
  int64_t top_k = 50;
  // Samples from the likeliest tokens whose probabilities reach this sum, at least from one; 1: from all tokens.
  double top_p = 1;
  // Divides positive logits of tokens that are already in the text, and multiplies negative ones (Keskar et al., CTRL,
  // 2019); 1: none. Also applied without `draw`.
  double repetition_penalty = 1;
};

// Chooses the next token from `logits`, one per token of the vocabulary. Sampling uses Philox(seed; text, place), so
// that the choice is the same on every device. text: index of the prompt. place: number of tokens generated before this
// one. before: the token ids of the text so far, for repetition_penalty; ids outside of the vocabulary are ignored.
// Throws E_NOT_FINITE (exit 8) for NaN logits.
int32_t choose_token(std::span<const float> logits, const Sampling& how, uint64_t seed, uint64_t text, uint64_t place,
                     std::span<const int32_t> before = {});

}  // namespace amp
