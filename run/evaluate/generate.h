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
  bool draw = false;  // false: greedy; the first of equally likely tokens
  double temperature = 1;
  int64_t top_k = 50;  // samples from the k likeliest tokens and those equal to the last of them; 0: all
};

// Chooses the next token from logits (vocabulary). Samples use Philox(seed; text, place), so they are the same on every
// device. E_NOT_FINITE (exit 8) for NaN logits.
int32_t choose_token(std::span<const float> logits, const Sampling& how, uint64_t seed, uint64_t text, uint64_t place);

struct GeneratedText {
  std::string text;          // with its prompt; without it for an encoder-decoder model
  std::vector<int32_t> ids;  // token ids of the whole text
  int64_t fresh = 0;         // number of generated ids
  bool ended = false;        // the last id is an end-of-text token
};

// Generates at most max_new_tokens per prompt. spec.model.model is a model file or a run's folder. Every token computes
// the whole text again (there is no key-value cache). E_TASK if the model is neither kind, E_SEQ_LEN if the text is
// longer than the model accepts.
std::vector<GeneratedText> generate(const RunSpec& spec, const std::vector<std::string>& prompts,
                                    int64_t max_new_tokens, const Sampling& how, const Log& log = {});

}  // namespace amp
