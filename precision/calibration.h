// Derives from measured ranges which nodes must stay fp32, the loss scale that fits the gradients best, and the order
// in which further nodes should become fp32. Pure arithmetic; trainer/loop/calibrate.h measures.
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

// One decision: nodes that must have the same type (one node, or a decomposed operator).
struct PlanGroup {
  std::vector<int> nodes;
  double error = 0;  // the largest relative rounding error of its inputs, outputs and gradients in 16 bits
  std::string why;   // description of that error
};

struct Calibration {
  // The largest power of two at which the gradients of 16-bit nodes keep a margin below overflow.
  double loss_scale = 1;
  // 16-bit groups that read or produce values beyond the type's range; must become fp32
  std::vector<PlanGroup> overflow;
  std::vector<PlanGroup> ranked;  // the other 16-bit groups, largest error first, later nodes first among equals
};

// Computes the calibration of `plan` from measured ranges. nodes: by source node. inputs: by value index, the ranges of
// graph inputs. A factor of two is kept to fp16's limit, because later batches may have larger values.
Calibration summarize_ranges(const SourceGraph& g, const PrecisionPlan& plan, const std::vector<NodeRanges>& nodes,
                             const std::vector<ValueRange>& inputs);

// Returns rules that keep a group in fp32: one per node, with its reason.
std::vector<PrecisionRule> rules_for(const SourceGraph& g, const PlanGroup& group);

}  // namespace amp
