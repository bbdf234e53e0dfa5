// The plan drawn: a Graphviz file, and a page to look at in a browser.
#pragma once

#include <string>

#include "precision/decide.h"

namespace amp {

// One box a node, coloured by compute type; an edge that crosses a border of types is red and dashed.
std::string plan_to_dot(const SourceGraph& g, const PrecisionPlan& plan);

// One file without any other: a searchable table (type, class, the pass and the rule that decided, whatever else
// plan_json records of a node), a strip of the whole graph, each node's neighbours. plan_json: plan_to_json's text.
std::string plan_to_html(const SourceGraph& g, const std::string& plan_json);

}  // namespace amp
