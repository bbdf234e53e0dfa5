// The data file of a model: tensors that are stored outside of the .onnx file.
#pragma once

#include <onnx/onnx_pb.h>

#include <string>
#include <utility>
#include <vector>

#include "base/host_tensor.h"

namespace amp {

using ExternalTensors = std::vector<std::pair<onnx::TensorProto*, HostTensor>>;

// Writes the tensors to "<path>.data" and updates their references (ONNX external data: location, offset, length).
// Tensors that the imported file stored outside keep their offsets, if they came from one file and do not overlap. So
// if no tensor changed and none was removed, the data file has the imported one's bytes up to its last tensor. Other
// tensors follow at multiples of 64 bytes, those of a MiB and more at multiples of 4096, for mmap. Throws E_WRITE.
void write_external(ExternalTensors& tensors, const std::string& path);

}  // namespace amp
