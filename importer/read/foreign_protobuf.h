// Recognizes protobuf messages of other frameworks.
#pragma once

#include <optional>
#include <string_view>

#include "importer/read/foreign_file.h"

namespace amp {

// Returns nullopt if the file is no known message, or an ONNX model with a graph. head: its first bytes.
std::optional<ForeignFile> recognize_protobuf(std::string_view head);

}  // namespace amp
