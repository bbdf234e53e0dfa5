// What is known of inference engines that cannot load, or compute otherwise, a file of 16 bits.
#pragma once

#include <string>
#include <vector>

#include "importer/write/export.h"

namespace amp {

// Notes for people, with versions and the way out. Empty for fp32.
std::vector<std::string> engine_notes(const SourceGraph& graph, const ExportOptions& options);

}  // namespace amp
