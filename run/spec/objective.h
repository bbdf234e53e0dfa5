// ObjectiveSpec: settings of the objective: task, losses, teacher.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "run/spec/default.h"

namespace amp {

struct ObjectiveSpec {
  Default<std::string> task{"auto"};
  Default<std::vector<std::string>> loss{{}};  // docs/losses.md; empty: the task's, the model's, or cross_entropy
  double label_smoothing = 0;
  std::string teacher;              // path of an ONNX file; empty: none
  std::string reference = "start";  // "base": without the adapter that training starts from
  double teacher_weight = 0.5, temperature = 1;
};

}  // namespace amp
