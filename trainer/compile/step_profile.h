// Profile of a training step: time, operations and bytes of every kernel, time of the update, and the remaining time.
#pragma once

#include <string>
#include <vector>

#include "backend/node_work.h"
#include "trainer/loop/step_engine.h"

namespace amp {

// A kernel of the step: a node of the training graph, or a copy of a gradient to the arena. seconds: per step, the
// median of the timed steps, so that an interruption of one step has no effect.
struct NodeTime {
  std::string op;        // core operator
  std::string name;      // name of the model's node that it was derived from; may be empty
  std::string role;      // Origin's: "", "gradient of" ...
  std::string operands;  // "f32[8,64] f32[64,32] -> f32[8,32]"
  NodeWork work;         // operations and bytes of one call
  int64_t calls = 0;     // number of calls per step
  double seconds = 0;
};

// A time interval of one step for a trace; the spans of a step are nested.
struct StepSpan {
  enum Kind : uint8_t { step, micro_batch, kernel, update } kind = kernel;
  int node = -1;                  // kernels only: index in StepProfile::nodes
  double begin = 0, seconds = 0;  // begin: seconds since the first step began
};

struct StepProfile {
  std::vector<NodeTime> nodes;  // in the order of execution
  double seconds = 0;           // time of a step: the sum of the medians of `nodes`, `update` and `rest`
  double wall_seconds = 0;      // the median of whole steps
  double update = 0;            // everything after the last kernel: sums of losses, norm, clipping, optimizer
  double rest = 0;              // writing the batch, and time between micro-batches
  int64_t update_bytes = 0;
  double plain_seconds = 0;  // time of a step without timed kernels: no synchronization, no clock reads
  int steps = 0;             // number of timed steps
  int threads = 0;           // host threads of the kernels
  std::vector<StepSpan> spans;
};

// Requires session.prepare(). window: the micro-batches of one accumulation step. Runs whole steps with a learning rate
// of 0: first until thread tuning ends, then `steps` plain ones, then `steps` with each kernel timed. Changes moments
// and statistics.
StepProfile profile_step(Session& session, const OptimizerConfig& optimizer, const LossScaleConfig& scale,
                         const Losses& losses, const std::vector<Tensors>& window, int steps);

}  // namespace amp
