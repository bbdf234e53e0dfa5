// Decides which constants are weights. No single rule covers arbitrary files, so evidence is weighed: the exporter's
// metadata, the tensor's name, its positions in the graph, whether a gradient reaches it, and its values. Each piece of
// evidence is a log-odds. The sign of the sum is the verdict, and its magnitude the confidence. docs/weights.md lists
// the weight of each piece. If names carry no information (hand-made files, other frameworks, optimized files),
// position decides. Values then only count against masks and position tables.
#pragma once

#include <vector>

#include "graph/source.h"
#include "importer/discover/exporter_record.h"
#include "importer/discover/verdict.h"

namespace amp {

// Turns constants into parameters and sets the reason of every constant and parameter. Returns one verdict per value; a
// verdict without evidence means that the value was not considered.
std::vector<Verdict> discover_parameters(SourceGraph& g, const ExporterRecord& record);

}  // namespace amp
