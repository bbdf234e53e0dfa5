// Converts nodes that an export left in training form (torch.onnx.TrainingMode.TRAINING or PRESERVE) to inference form.
#pragma once

#include <onnx/onnx_pb.h>

#include <string>
#include <vector>

namespace amp {

// Applies to the main graph, nested graphs and local functions. BatchNormalization with batch statistics uses its
// running statistics; Dropout whose training_mode is a constant true becomes inactive. Training outputs (statistics,
// masks) are removed if nothing reads them. A BatchNormalization whose statistics are read is kept, with a note.
void to_inference_form(onnx::ModelProto& model, std::vector<std::string>& notes);

}  // namespace amp
