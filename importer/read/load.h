// Reads an ONNX file into a ModelProto and checks what the importer relies on: the file is a protobuf with a graph, and
// its IR version and operator sets are supported.
#pragma once

#include <onnx/onnx_pb.h>

#include <memory>
#include <string>

namespace amp {

constexpr int64_t kOldestOpset = 7;

// Reads and checks the file. Throws E_MODEL_OPEN (Exit::usage); E_ONNX_EMPTY, E_ONNX_LFS, E_ONNX_NOT_PROTO,
// E_ONNX_TRUNCATED, E_ONNX_WIRE, E_ONNX_DEPTH, E_ONNX_2GB, E_ONNX_GRAPH (Exit::model); E_IR_VERSION, E_OPSET
// (Exit::unsupported).
std::shared_ptr<onnx::ModelProto> load_proto(const std::string& path);

}  // namespace amp
