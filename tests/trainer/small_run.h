// A small model, its data and a training loop, for tests of the effect of a precision plan on learning.
#pragma once

#include <string>
#include <vector>

#include "backend/update.h"
#include "precision/decide.h"
#include "trainer/compile/session.h"

namespace amp::test {

// Returns a graph in the text form of tests/precision/text_graph.h whose parameters get normal random values. scales:
// one line "W 0.1" per parameter; parameters without a line keep the text's constant.
SourceGraph random_graph(const std::string& text, const std::string& scales);

HostTensor normal(Dims dims, double scale, uint64_t seed);

struct RunOptions {
  DType low = DType::f16;  // f32: no plan
  LossScaleConfig scale;
  OptimizerConfig optimizer;
  double lr = 1e-3;
  int steps = 100;
  bool low_weights = false;  // no fp32 master weights: rounds weights to `low` after every step
};

struct RunResult {
  std::vector<double> loss;  // the loss before each step
  int64_t applied = 0, skipped = 0;
  float last_scale = 1;
};

RunResult run(const SourceGraph& g, const PrecisionPlan* plan, const LossSpec& loss, const Tensors& batch,
              const RunOptions& options);

}  // namespace amp::test
