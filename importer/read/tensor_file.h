// A tensor in a file of its own (a serialized TensorProto, .pb): the form of ONNX's test data.
#pragma once

#include <string>

#include "base/host_tensor.h"

namespace amp {

// Exit::usage E_TENSOR_FILE: cannot be read; Exit::model E_TENSOR_FILE: no TensorProto; Exit::unsupported
// E_TENSOR_TYPE: an element type that is none of ours.
HostTensor read_tensor_file(const std::string& path);

}  // namespace amp
