// Writes the plan as precision_plan.json and as the table of the `plan` verb.
//
// The JSON file is an op-list (op_list.h) that contains all inherited entries, so it can be edited and used as input.
// "graph", "nodes" and "warnings" record the decisions and the graph for which they were made:
//    {"version": 1, "extends": "none", "dtype": "fp16", "propagation": .., "allow": [..], .., "rules": [..],
//     "loss_scale": {..}, "graph": "fnv1a:..", "nodes": [{"name", "op", "compute", "class", "rule", "pass"}, ..],
//     "warnings": [..]}
// If a cost (cost.h) is given, every node also has "storage" (the type of each output that is stored; empty for a
// fused node), "bytes", and "casts" [{"from", "to", "of": "weight"|"value"|"gradient", "bytes"}]; "cost" holds the
// totals and the input shapes. Equal plans give equal bytes. load_op_list() reads the file.
#pragma once

#include <string>

#include "precision/cost.h"
#include "precision/decide.h"

namespace amp {

std::string plan_to_json(const SourceGraph& g, const PrecisionPlan& plan, const PlanCost* cost = nullptr);

// Returns a summary (numbers of nodes by compute type and by pass), one line per node with floating-point
// arithmetic, and the warnings. all: whether the other nodes are listed too.
std::string explain_plan(const SourceGraph& g, const PrecisionPlan& plan, bool all = false);

}  // namespace amp
