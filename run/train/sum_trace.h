// Trace of the first rank's steps (sums of gradients over the ranks, computation, waiting), in Chrome's trace format
// (Perfetto).
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "trainer/loop/step_engine.h"

namespace amp {

class SumTrace {
 public:
  void observe(const StepResult& step);  // records the first 100 steps; nothing with one rank
  void write(const std::string& path) const;

 private:
  nlohmann::json events_ = nlohmann::json::array();
  double first_ = 0;  // seconds of the steady clock
  int64_t steps_ = 0;
};

}  // namespace amp
