// A short run of LeNet on its golden batch, evaluated on its training data. A hundred steps take seconds.
#pragma once

#include <string>

#include "run/spec/spec.h"
#include "tests/support.h"

namespace amp::test {

inline RunSpec lenet_run(const TempDir& f, const std::string& run, int64_t steps) {
  const std::string entry = test_data("zoo/lenet_relu_dyn18");
  RunSpec spec;
  spec.model = entry + "/model.onnx";
  spec.train = spec.val = entry + "/batch.safetensors";
  spec.output_dir = f / run;
  spec.loss = {"cross_entropy"};
  spec.metric_for_best_model = "loss";
  spec.max_steps = steps;
  spec.device = "cpu";
  return spec;
}

}  // namespace amp::test
