// Constants in 16 bits, for importer/write/half.cc.
//
// Masks: an additive mask is a constant beyond what the type holds (-3.4e38, the lowest fp32), at its edge (-65504), or
// -inf. It becomes half the type's lowest number, so that two masks on one score do not add up to -inf: a row that
// masks hide entirely is then uniform, as the fp32 file has it, and not NaN. -inf stays when the model tests for NaN
// afterwards, the exporters' guard by which such a row becomes 0. Bounds (Clip, Max, Min, Pad) become the type's
// largest numbers instead.
#pragma once

#include <onnx/onnx_pb.h>

#include <functional>
#include <initializer_list>
#include <string>

#include "base/host_tensor.h"

namespace amp {

struct HalfType {
  int onnx = onnx::TensorProto::FLOAT16;  // or BFLOAT16
  DType dtype() const { return onnx == onnx::TensorProto::FLOAT16 ? DType::f16 : DType::bf16; }
  float largest() const { return onnx == onnx::TensorProto::FLOAT16 ? 65504.f : 3.3895314e38f; }
  float smallest() const { return onnx == onnx::TensorProto::FLOAT16 ? 0x1p-24f : 0x1p-133f; }
};

struct ConstantUse {
  bool weight = false;     // must fit: E_EXPORT_RANGE
  bool bound = false;      // read as a bound only
  bool nan_guard = false;  // the model holds an IsNaN
};

struct Narrowed {
  HostTensor value;
  bool masked = false;   // holds a mask that was changed
  bool clamped = false;  // ... a bound that was
  bool raised = false;   // one element too small for the type (an epsilon) became its smallest number
};

// Attributes that fix the type of what a node makes; `narrow` converts a float32 tensor that is one.
void retype_attributes(onnx::NodeProto& n, const HalfType& half, const std::function<void(onnx::TensorProto&)>& narrow);

Narrowed narrow_constant(const HostTensor& wide, const HalfType& type, const ConstantUse& use, const std::string& name);

}  // namespace amp
