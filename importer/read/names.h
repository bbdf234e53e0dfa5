// Names in model files: validation, and the module path that exporters write into node names and metadata.
#pragma once

#include <onnx/onnx_pb.h>

#include <string>

namespace amp {

// Errors: Exit::model E_NAME (empty, control characters, more than 4096 bytes), E_UTF8.
void check_name(const std::string& name, const char* what);

// The module that a node was exported from: "encoder.layer.0.attention.self.query" from the name
// "/encoder/layer.0/attention/self/query/MatMul" or from the metadata of PyTorch's newer exporter; "" when unknown.
std::string module_path(const onnx::NodeProto& node);

}  // namespace amp
