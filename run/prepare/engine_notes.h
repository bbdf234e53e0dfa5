// Known limitations of inference engines with 16-bit model files.
#pragma once

#include <string>
#include <vector>

#include "importer/write/export.h"

namespace amp {

// Returns notes for users about the graph's nodes, with engine versions and the workaround. Empty for fp32.
std::vector<std::string> engine_notes(const SourceGraph& graph, const ExportOptions& options);

}  // namespace amp
