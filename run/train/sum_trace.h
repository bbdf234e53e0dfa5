// The first rank's sums of gradients beside the rest of its steps, as a trace in Chrome's format (Perfetto).
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "trainer/loop/step_engine.h"

namespace amp {

class SumTrace {
 public:
  void see(const StepResult& step);  // of the first 100; nothing of a run of one rank
  void write(const std::string& path) const;

 private:
  nlohmann::json events_ = nlohmann::json::array();
  double first_ = 0;  // seconds of the steady clock
  int64_t steps_ = 0;
};

}  // namespace amp
