// Recognizes protobuf messages of other frameworks.
#pragma once

#include <optional>
#include <string_view>

#include "importer/read/foreign_file.h"

namespace amp {

// head: the first bytes of a file; nullopt if it is not a known message, or an ONNX model with a graph.
std::optional<ForeignFile> recognize_protobuf(std::string_view head);

}  // namespace amp
