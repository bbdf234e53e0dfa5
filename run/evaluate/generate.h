// Text that a causal language model writes behind prompts, or an encoder-decoder model about them, token by token: the
// likeliest one, or one that is drawn.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/log.h"
#include "run/spec/spec.h"

namespace amp {

struct Sampling {
  bool draw = false;  // false: the likeliest token, the first one of equals
  double temperature = 1;
  int64_t top_k = 50;  // of so many likeliest tokens, and of those equal to the last of them; 0: of all
};

// The token after logits (vocabulary). Drawn by Philox(seed; text, place): the same on every device. E_NOT_FINITE (exit
// 8) for a NaN.
int32_t choose_token(std::span<const float> logits, const Sampling& how, uint64_t seed, uint64_t text, uint64_t place);

struct GeneratedText {
  std::string text;          // with its prompt; of an encoder-decoder model without
  std::vector<int32_t> ids;  // of all of it
  int64_t fresh = 0;         // of them behind the prompt
  bool ended = false;        // by an end-of-text token, the last one
};

// spec.model: a model file, or a run's folder. Every token computes the whole text again (there is no cache of keys and
// values); at most max_new_tokens are written. E_TASK for a model that is neither, E_SEQ_LEN for
// texts longer than it takes.
std::vector<GeneratedText> generate(const RunSpec& spec, const std::vector<std::string>& prompts,
                                    int64_t max_new_tokens, const Sampling& how, const Log& log = {});

}  // namespace amp
