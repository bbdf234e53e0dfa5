// Generates text token by token: a causal language model continues prompts, an encoder-decoder model answers them.
// Decoding is greedy or sampled.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/log.h"

namespace amp {

struct RunSpec;

struct Sampling {
  bool draw = false;  // false: always the likeliest token, and the first one of equally likely tokens
  double temperature = 1;
  // Samples from the `top_k` likeliest tokens, and from tokens that are as likely as the last of these; 0: from all
  // tokens.
  int64_t top_k = 50;
};

// Chooses the next token from `logits`, one per token of the vocabulary. Sampling uses Philox(seed; text, place), so
// that the choice is the same on every device. text: index of the prompt. place: number of tokens generated before this
// one. Throws E_NOT_FINITE (exit 8) for NaN logits.
int32_t choose_token(std::span<const float> logits, const Sampling& how, uint64_t seed, uint64_t text, uint64_t place);

struct GeneratedText {
  std::string text;          // includes the prompt, except for an encoder-decoder model
  std::vector<int32_t> ids;  // token ids of the whole text
  int64_t fresh = 0;         // number of generated token ids
  bool ended = false;        // the last id is the end-of-text token
};

// Continues each prompt by at most `max_new_tokens` tokens. spec.model.model is a model file or a run's folder. Every
// token computes the whole text again (there is no key-value cache). Throws E_TASK if the model is neither a causal
// language model nor an encoder-decoder model, and E_SEQ_LEN if the text is longer than the model accepts.
std::vector<GeneratedText> generate(const RunSpec& spec, const std::vector<std::string>& prompts,
                                    int64_t max_new_tokens, const Sampling& how, const Log& log = {});

}  // namespace amp
