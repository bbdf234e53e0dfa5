// A short run of LeNet on its golden batch, evaluated on its training data. A hundred steps take seconds.
#pragma once

#include <string>

#include "run/spec/spec.h"
#include "tests/support.h"

namespace amp::test {

inline RunSpec lenet_run(const TempDir& f, const std::string& run, int64_t steps) {
  const std::string entry = test_data("zoo/lenet_relu_dyn18");
  RunSpec spec;
  spec.model.model = entry + "/model.onnx";
  spec.data.train = spec.data.val = entry + "/batch.safetensors";
  spec.output.output_dir = f / run;
  spec.objective.loss = {"cross_entropy"};
  spec.evaluation.metric_for_best_model = "loss";
  spec.schedule.max_steps = steps;
  spec.device.device = "cpu";
  return spec;
}

}  // namespace amp::test
