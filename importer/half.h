// A model converted to fp16 as a whole: every float32 tensor inside becomes float16, inputs and outputs keep their
// types behind Cast nodes. Operators (or single inputs of them) whose ONNX definition knows no float16 at the model's
// opset, such as Range or Resize's scales, keep float32 between Casts. Local functions are inlined first.
#pragma once

#include <onnx/onnx_pb.h>

#include <set>
#include <string>
#include <vector>

namespace amp {

// weights: names of tensors that must fit (E_EXPORT_RANGE otherwise). Other finite constants beyond 65504 (masks)
// become
// +-65504, one-element constants too small for fp16 (epsilons) become 2^-24; both are noted. All payloads must be in
// the proto. Exit::unsupported E_EXPORT_FP16: operators without a definition.
void convert_to_half(onnx::ModelProto& model, const std::set<std::string>& weights, std::vector<std::string>& notes);

}  // namespace amp
