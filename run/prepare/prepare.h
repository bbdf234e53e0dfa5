// prepare(): makes a PreparedRun from a RunSpec. This header also declares checks of the lengths of texts.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "run/prepare/prepared_run.h"

namespace amp {

// require_length() throws E_DATA_LENGTH (exit 5) before anything is computed if texts are longer than the model's
// position table; the message states the length that fits. longest_of() returns the sequence length of the longest
// batch, in tokens.
void require_length(const SourceGraph& graph, const std::vector<int>& outputs, int64_t longest,
                    const std::string& hint = "");
// As require_length(), for prompts with their new tokens. fixed: the only length that the graph accepts; 0: any. For
// longer texts throws E_SEQ_LEN (Exit::usage) with fixed_hint.
void require_generated_length(const SourceGraph& graph, int logits, int64_t fixed, int64_t longest,
                              const std::string& hint, const std::string& fixed_hint);
int64_t longest_of(const TextSpec& text, const Dataset& data);

// Reads everything that training needs, and writes nothing. Throws the errors of settings, model, data and folder.
std::unique_ptr<PreparedRun> prepare(const RunSpec& spec, const Host& host = {}, Mode mode = Mode::train);

// Returns the micro-batch with the longest texts, which determines how much memory training needs.
Tensors first_batch(PreparedRun& run);

}  // namespace amp
