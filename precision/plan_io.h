// The plan as an artefact: precision_plan.json, and the table of the `plan` verb.
//
// The JSON file is itself an op-list (op_list.h) with everything inherited written out, so it can be edited and given
// back; "graph", "nodes" and "warnings" record what it decided for which graph:
//   {"version": 1, "extends": "none", "dtype": "fp16", "propagation": .., "allow": [..], .., "rules": [..],
//    "loss_scale": {..}, "graph": "fnv1a:..", "nodes": [{"name", "op", "compute", "class", "rule", "pass"}, ..],
//    "warnings": [..]}
// With a cost (cost.h) every node also has "storage", the type of each output that is kept (none: a composite absorbed
// it), "bytes" and "casts" [{"from", "to", "of": "weight"|"value"|"gradient", "bytes"}]; "cost" sums up and names the
// input shapes. The same plan gives the same bytes. Reading: load_op_list.
#pragma once

#include <string>

#include "precision/cost.h"
#include "precision/decide.h"

namespace amp {

std::string plan_to_json(const SourceGraph& g, const PrecisionPlan& plan, const PlanCost* cost = nullptr);

// A summary (nodes by compute type, by pass), one line per node of floating arithmetic, then the warnings. With
// all = true the nodes without floating arithmetic are listed too.
std::string explain_plan(const SourceGraph& g, const PrecisionPlan& plan, bool all = false);

}  // namespace amp
