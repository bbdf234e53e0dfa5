// Generates text token by token: a causal language model continues prompts, an encoder-decoder model answers them.
// Decoding is greedy or sampled.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/log.h"
#include "run/evaluate/sampling.h"

namespace amp {

struct RunSpec;

struct GenerateOptions {
  int64_t max_new_tokens = 50;
  Sampling sampling;
  // The prompts are messages of a user, or JSON arrays of messages. The chat template of the tokenizer's folder, or
  // `chat_template`, writes them.
  bool chat = false;
  bool use_cache = true;  // false: each token computes the whole text, as in models without key/value caches
};

struct GeneratedText {
  std::string text;          // includes the prompt, except for an encoder-decoder model
  std::string answer;        // only the generated tokens
  std::vector<int32_t> ids;  // token ids of the whole text
  int64_t fresh = 0;         // number of generated token ids
  bool ended = false;        // the last id is an end-of-text token
};

// Continues each prompt by at most `max_new_tokens` tokens, or until an end-of-text token: that of the tokenizer, or
// one of `eos_token_id` in genai_config.json or generation_config.json beside the model or its tokenizer.
// spec.model.model is a model file or a run's folder. If the model has key/value caches, a token computes only its
// position (run/evaluate/cached_decoder.h), else the whole text. Throws E_TASK if the model is neither a causal
// language model nor an encoder-decoder model, E_DATA_LENGTH and E_SEQ_LEN if the text is longer than the model
// accepts, E_DATA_CHAT, E_CHAT_TEMPLATE and E_CHAT_TEMPLATE_MISSING for chat prompts.
std::vector<GeneratedText> generate(const RunSpec& spec, const std::vector<std::string>& prompts,
                                    const GenerateOptions& options, const Log& log = {});

}  // namespace amp
