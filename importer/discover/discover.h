// Which constants are weights. No single rule holds for files that nobody prepared, so evidence is weighed: what the
// exporter recorded, the tensor's name, the positions it takes, whether a gradient reaches it, what its values look
// like. Each piece is a log-odds; the sign of their sum is the verdict, its size the confidence. docs/weights.md has
// the table. Where names say nothing (hand-made files, other frameworks, optimised files) position decides, with the
// values against masks and position tables only.
#pragma once

#include <vector>

#include "graph/source.h"
#include "importer/discover/exporter_record.h"
#include "importer/discover/verdict.h"

namespace amp {

// Turns constants into parameters and gives every constant and parameter its reason. One verdict per value; those
// without evidence were not in question.
std::vector<Verdict> discover_parameters(SourceGraph& g, const ExporterRecord& record);

}  // namespace amp
