// Reads a tensor from a file that holds one serialized TensorProto (.pb), the format of ONNX's test data.
#pragma once

#include <string>

#include "base/host_tensor.h"

namespace amp {

// Throws E_FILE_MISSING (Exit::usage) if the file cannot be opened, E_TENSOR_FILE (Exit::model) if it is not a
// TensorProto, and E_TYPE (Exit::unsupported) for an unsupported element type.
HostTensor read_tensor_proto(const std::string& path);

}  // namespace amp
