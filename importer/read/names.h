// Validates names in model files and reads the module path that exporters write into node names and metadata.
#pragma once

#include <onnx/onnx_pb.h>

#include <string>

namespace amp {

// Throws E_NAME (empty, control characters, more than 4096 bytes) or E_UTF8, both Exit::model.
void check_name(const std::string& name, const char* what);

// Returns the module that a node was exported from, or "" if it is unknown. For example,
// "/encoder/layer.0/attention/self/query/MatMul" belongs to "encoder.layer.0.attention.self.query". PyTorch's newer
// exporter writes the module into the node's metadata.
std::string module_path(const onnx::NodeProto& node);

}  // namespace amp
