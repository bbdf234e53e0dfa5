// Which rule of an op-list speaks for which node.
#pragma once

#include <vector>

#include "graph/source.h"
#include "precision/op_list.h"
#include "precision/units.h"

namespace amp {

struct RuleMatches {
  std::vector<int> of_node;    // index of the last rule that matches, -1: none
  std::vector<char> matched;   // by rule: at least one node of floating arithmetic
  std::vector<int> no_floats;  // by rule: the first node it names that has none, -1: none
};

// eligible: by node. A rule's op also matches the kind of the unit a node is part of.
RuleMatches match_rules(const SourceGraph& g, const std::vector<PrecisionRule>& rules, const std::vector<Unit>& units,
                        const std::vector<char>& eligible);

}  // namespace amp
