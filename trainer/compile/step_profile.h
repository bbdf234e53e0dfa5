// Where a training step's time goes: every kernel with what it computes and moves, the update, and what lies between.
#pragma once

#include <string>
#include <vector>

#include "backend/node_work.h"
#include "trainer/loop/step_engine.h"

namespace amp {

// A kernel of the step: a node of the training graph, or a gradient moved to the arena. Seconds are a step's, the
// median of those that were looked into: what interrupts one of them does not count.
struct NodeTime {
  std::string op;        // core operator
  std::string name;      // of the model's node that it comes of; may be empty
  std::string role;      // Origin's: "", "gradient of" ...
  std::string operands;  // "f32[8,64] f32[64,32] -> f32[8,32]"
  NodeWork work;         // of one call
  int64_t calls = 0;     // a step
  double seconds = 0;
};

// A stretch of one step for a trace; spans of a step nest.
struct StepSpan {
  enum Kind : uint8_t { step, micro_batch, kernel, update } kind = kernel;
  int node = -1;                  // of a kernel: in StepProfile::nodes
  double begin = 0, seconds = 0;  // since the first step's begin
};

struct StepProfile {
  std::vector<NodeTime> nodes;  // in the order of a step
  double seconds = 0;           // of a step: nodes, update and rest together, medians as these
  double wall_seconds = 0;      // the median of whole steps
  double update = 0;            // what comes behind the last kernel: sums of losses, norm, clipping, the optimizer
  double rest = 0;              // feeding the batch, and what lies between micro-batches
  int64_t update_bytes = 0;
  double plain_seconds = 0;  // of a step that is not looked into: nothing waits, no clock is read
  int steps = 0;             // looked into
  int threads = 0;           // of the host that its kernels ran on
  std::vector<StepSpan> spans;
};

// After session.prepare(). Runs whole steps of this window at a learning rate of 0: first until nothing is tuned any
// more, then `steps` plain ones and `steps` whose kernels are timed one by one. Moments and statistics move.
StepProfile profile_step(Session& session, const OptimizerConfig& optimizer, const LossScaleConfig& scale,
                         const Losses& losses, const std::vector<Tensors>& window, int steps);

}  // namespace amp
