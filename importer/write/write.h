// Writes a SourceGraph that was built by GraphEditor (importer/surgery/edit.h), not imported, as an ONNX file.
#pragma once

#include <map>
#include <string>

#include "graph/source.h"

namespace amp {

// Writes the nodes of Place::added in their order, and the values that they read. Graph inputs must be the first values
// and have a rank. The file is written completely or not at all, and checked by the ONNX checker with shape inference.
// Above 2 GiB the tensors are stored in "<path>.data". Throws E_WRITE (Exit::storage), E_EXPORT_CHECK (Exit::internal).
void write_model(const SourceGraph& graph, const std::map<std::string, std::string>& metadata, const std::string& path);

}  // namespace amp
