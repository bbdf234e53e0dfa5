// --cut_at: removes everything after a node or tensor from the graph that is trained and exported.
#pragma once

#include <string>
#include <vector>

#include "graph/source.h"

namespace amp {

// Makes the value `name` a graph output; the name of a node means its first output. Outputs that depend on the value
// are removed, together with the nodes that only they need. The weights of these nodes are no longer parameters. Adds
// messages for the user to `lines` and returns the value. Throws E_CUT (Exit::usage) if the name does not exist (with
// the nearest name) or if no node computes the value.
int cut_graph(SourceGraph& g, const std::string& name, std::vector<std::string>& lines);

}  // namespace amp
