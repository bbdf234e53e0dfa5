// EvaluationSpec: settings of evaluation, early stopping and quality gates.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace amp {

struct EvaluationSpec {
  int64_t eval_batch_size = 0;  // 0: batch_size
  int64_t eval_steps = 0;       // 0: at the end of each epoch
  std::string eval_group_by;    // column of the validation data; empty: none
  std::string metric_for_best_model = "auto";
  int64_t early_stopping_patience = 0;
  double early_stopping_threshold = 0;
  std::vector<std::string> require;         // "accuracy>=0.85"
  std::vector<std::string> sample_prompts;  // texts, or files with one in each line
  int64_t sample_new_tokens = 64;
};

}  // namespace amp
