// The answers of a model in training to fixed prompts (`sample_prompts`).
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "run/evaluate/next_token.h"
#include "run/prepare/prepare.h"

namespace amp {

class SamplePrompts {
 public:
  // Reads and tokenizes the prompts. Throws Exit::usage if the run trains no causal language model or a prompt is too
  // long, and the errors of prompts (run/data/prompts.h).
  explicit SamplePrompts(const PreparedRun& run);

  bool empty() const { return prompts_.empty(); }

  // Continues each prompt with the session's weights: the likeliest tokens, at most `sample_new_tokens`. Logs the
  // answers and adds them to kAnswersFile in the folder, {"prompts": [..], "evaluations": [{"step", "answers"}]}, in
  // the order of steps. Answers of later steps, from before a run was resumed, are removed. At most 100 evaluations are
  // kept: the first and the latest.
  void answer(Session& session, int64_t step, const std::string& folder);

 private:
  struct Prompt {
    std::string text;
    std::vector<int32_t> ids;
  };
  void write(const std::vector<std::string>& answers, int64_t step, const std::string& path) const;

  Log log_;
  int64_t new_tokens_;
  std::string logits_;
  std::vector<InputSpec> inputs_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::set<int32_t> ends_;
  std::vector<Prompt> prompts_;
};

}  // namespace amp
