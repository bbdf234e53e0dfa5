// Reads a tensor from a file that holds one serialized TensorProto (.pb), the format of ONNX's test data.
#pragma once

#include <string>

#include "base/host_tensor.h"

namespace amp {

// Errors: Exit::usage E_TENSOR_FILE (cannot be opened); Exit::model E_TENSOR_FILE (not a TensorProto);
// Exit::unsupported E_TENSOR_TYPE (element type not supported).
HostTensor read_tensor_file(const std::string& path);

}  // namespace amp
