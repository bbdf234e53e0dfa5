// Nodes that a training export left in training form (torch.onnx.TrainingMode.TRAINING or PRESERVE), as inference uses
// them.
#pragma once

#include <onnx/onnx_pb.h>

#include <string>
#include <vector>

namespace amp {

// In the main graph, in graphs inside of nodes and in local functions: BatchNormalization with batch statistics uses
// its running ones, and Dropout whose training_mode is a constant true drops nothing. Outputs for training (statistics,
// masks) go where nothing reads them; a BatchNormalization whose statistics are read stays, with a note.
void to_inference_form(onnx::ModelProto& model, std::vector<std::string>& notes);

}  // namespace amp
