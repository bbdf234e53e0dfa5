// Derives from measured ranges which nodes must stay fp32, the loss scale that fits the gradients best, and the order
// in which further nodes should become fp32. Only computes; trainer/loop/calibrate.h measures the ranges.
#pragma once

#include <string>
#include <vector>

#include "graph/source.h"
#include "precision/decide.h"
#include "precision/range.h"

namespace amp {

// Ranges of one source node in an fp32 run at loss scale 1: its values and the gradients that its backward computes.
// Gradients of weights are excluded, because every plan keeps them in fp32.
struct NodeRanges {
  ValueRange value, gradient;
};

// A group of nodes that must have the same type: one node, or the nodes of a decomposed operator.
struct PlanGroup {
  std::vector<int> nodes;
  double error = 0;  // the largest relative rounding error of its inputs, outputs and gradients in 16 bits
  std::string why;   // the cause of that error, as text
};

struct Calibration {
  // The largest power of two at which the gradients of 16-bit nodes keep a margin below overflow.
  double loss_scale = 1;
  // 16-bit groups that read or produce values beyond the type's range, so that they must become fp32
  std::vector<PlanGroup> overflow;
  std::vector<PlanGroup> ranked;  // the other 16-bit groups by descending error; equal errors: later nodes first
};

// Computes the calibration of `plan` from the ranges of nodes (by source node) and graph inputs (by value index).
// Values stay a factor of two below fp16's limit, because later batches may have larger ones.
Calibration summarize_ranges(const SourceGraph& g, const PrecisionPlan& plan, const std::vector<NodeRanges>& nodes,
                             const std::vector<ValueRange>& inputs);

// Returns the rules that keep a group in fp32: one rule per node, with the reason.
std::vector<PrecisionRule> rules_for(const SourceGraph& g, const PlanGroup& group);

}  // namespace amp
