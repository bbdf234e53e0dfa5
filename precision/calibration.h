// From measured ranges to a plan: what must stay fp32 because 16 bits cannot hold it, at which loss scale the gradients
// fit best, and in which order more nodes would be worth their fp32. Pure arithmetic on what trainer/loop/calibrate.h
// measured.
#pragma once

#include <string>
#include <vector>

#include "graph/source.h"
#include "precision/decide.h"
#include "precision/range.h"

namespace amp {

// Of one source node in an fp32 run: what it computed, and what its backward computed (weight gradients, which are kept
// fp32 in any plan, left out), at loss scale 1.
struct NodeRanges {
  ValueRange value, gradient;
};

// One decision: the nodes that stand or fall together (a node, or a spelled-out composite), in the words of a rule.
struct PlanGroup {
  std::vector<int> nodes;
  double error = 0;  // the worst rounding error, relative, of what it reads, computes and passes back in 16 bit
  std::string why;   // what that error is
};

struct Calibration {
  // the largest power of two at which the gradients of low nodes keep clear of overflow
  double loss_scale = 1;
  std::vector<PlanGroup> overflow;  // low groups that read or make what 16 bits cannot hold: fp32 without asking
  std::vector<PlanGroup> ranked;    // the other low groups, largest error first, later ones first among equals
};

// nodes: by source node, with the values of graph inputs in `inputs`, by value index. plan: the plan to improve on, in
// its 16-bit type. A headroom of two is kept to fp16's limit, as later batches may reach further.
Calibration judge(const SourceGraph& g, const PrecisionPlan& plan, const std::vector<NodeRanges>& nodes,
                  const std::vector<ValueRange>& inputs);

// Rules that keep a group fp32, one a node, with its reason.
std::vector<PrecisionRule> rules_for(const SourceGraph& g, const PlanGroup& group);

}  // namespace amp
