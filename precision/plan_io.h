// Writes the plan as precision_plan.json and as the table of the `plan` verb.
//
// The JSON file is an op-list (op_list.h) with all inherited entries, so it can be edited and used as input. "graph",
// "nodes" and "warnings" record the decisions and the graph they were made for:
//    {"version": 1, "extends": "none", "dtype": "fp16", "propagation": .., "allow": [..], .., "rules": [..],
//     "loss_scale": {..}, "graph": "fnv1a:..", "nodes": [{"name", "op", "compute", "class", "rule", "pass"}, ..],
//     "warnings": [..]}
// With a cost (cost.h) every node also has "storage", the type of each output that is stored (none if it was fused),
// "bytes" and "casts" [{"from", "to", "of": "weight"|"value"|"gradient", "bytes"}]; "cost" holds the totals and the
// input shapes. Equal plans give equal bytes. load_op_list() reads the file.
#pragma once

#include <string>

#include "precision/cost.h"
#include "precision/decide.h"

namespace amp {

std::string plan_to_json(const SourceGraph& g, const PrecisionPlan& plan, const PlanCost* cost = nullptr);

// Returns a summary (nodes by compute type and by pass), one line per node with floating-point arithmetic, and the
// warnings. With all = true the other nodes are listed too.
std::string explain_plan(const SourceGraph& g, const PrecisionPlan& plan, bool all = false);

}  // namespace amp
