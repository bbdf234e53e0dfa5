// --cut_at: removes everything after a node or tensor from the graph that is trained and exported.
#pragma once

#include <string>
#include <vector>

#include "graph/source.h"

namespace amp {

// `name`: a value, or a node (its first output). The value becomes a graph output. Outputs that depend on it are
// removed, with the nodes that only they need; the weights of these nodes are no longer parameters. Adds messages for
// the user; returns the value. Errors: Exit::usage E_CUT: no such name (with the nearest), or no node computes it.
int cut_graph(SourceGraph& g, const std::string& name, std::vector<std::string>& lines);

}  // namespace amp
