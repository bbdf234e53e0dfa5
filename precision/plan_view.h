// The plan as a Graphviz file and as an HTML page.
#pragma once

#include <string>

#include "precision/decide.h"

namespace amp {

// Returns a Graphviz graph with one box per node, colored by compute type. An edge between different types is red and
// dashed.
std::string plan_to_dot(const SourceGraph& g, const PrecisionPlan& plan);

// Returns a self-contained HTML page: a searchable table (type, class, deciding pass and rule, and other fields of
// plan_json), an overview of the graph, and each node's neighbors. plan_json: the text of plan_to_json().
std::string plan_to_html(const SourceGraph& g, const std::string& plan_json);

}  // namespace amp
