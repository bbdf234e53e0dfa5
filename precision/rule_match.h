// Matches the rules of an op-list to nodes.
#pragma once

#include <vector>

#include "graph/source.h"
#include "precision/op_list.h"
#include "precision/units.h"

namespace amp {

struct RuleMatches {
  std::vector<int> of_node;    // per node: index of the last rule that matches; -1: none
  std::vector<char> matched;   // per rule: whether it matches at least one node with floating-point arithmetic
  std::vector<int> no_floats;  // per rule: the first matching node without floating-point arithmetic; -1: none
};

// eligible: per node, whether it has floating-point arithmetic. A rule's `op` also matches a node if it is the kind
// of the decomposed operator (Unit) of which the node is part.
RuleMatches match_rules(const SourceGraph& g, const std::vector<PrecisionRule>& rules, const std::vector<Unit>& units,
                        const std::vector<char>& eligible);

}  // namespace amp
