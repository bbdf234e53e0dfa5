// Reads a tensor from a file that holds one serialized TensorProto (.pb), the format of ONNX's test data.
#pragma once

#include <string>

#include "base/host_tensor.h"

namespace amp {

// Reads the tensor. Throws E_TENSOR_FILE if the file cannot be opened (Exit::usage) or is not a TensorProto
// (Exit::model), and E_TENSOR_TYPE (Exit::unsupported) for an unsupported element type.
HostTensor read_tensor_file(const std::string& path);

}  // namespace amp
