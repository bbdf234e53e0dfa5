// --cut_at: what follows a node or tensor is dropped from the graph that is trained and exported.
#pragma once

#include <string>
#include <vector>

#include "graph/source.h"

namespace amp {

// `name`: a value, or a node (its first output). Graph outputs that depend on it go, it becomes one itself; nodes that
// only served those outputs are removed and their weights are parameters no longer. Adds lines for people; returns the
// value. Exit::usage E_CUT: no such name (with the nearest), or nothing computes it.
int cut_graph(SourceGraph& g, const std::string& name, std::vector<std::string>& lines);

}  // namespace amp
