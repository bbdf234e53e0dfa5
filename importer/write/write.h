// A SourceGraph that no file stands behind, built by GraphEditor (importer/surgery/edit.h), as an ONNX file.
#pragma once

#include <map>
#include <string>

#include "graph/source.h"

namespace amp {

// Nodes of Place::added in the order in which they stand, and the values that they read. The graph inputs are its first
// values and have their rank.
// The file appears whole or not at all, checked by the ONNX checker with shape inference; one above 2 GiB keeps its
// tensors in "<path>.data". Exit::storage E_WRITE; Exit::internal E_EXPORT_CHECK.
void write_model(const SourceGraph& graph, const std::map<std::string, std::string>& metadata, const std::string& path);

}  // namespace amp
