// Conversion of constants to 16 bits, for importer/write/half.cc.
//
// An additive mask is a constant beyond the type's range (-3.4e38, the lowest fp32), at its edge (-65504), or -inf. It
// becomes half the type's lowest number, so that the sum of two masks is not -inf. The probabilities of a query whose
// keys are all masked are then uniform, as in the fp32 file, and not NaN. If the model later tests for NaN, -inf is
// kept: exporters set the probabilities of such a query to 0 by this guard. Bounds (Clip, Max, Min, Pad) become the
// type's largest numbers instead.
#pragma once

#include <onnx/onnx_pb.h>

#include <functional>
#include <initializer_list>
#include <string>

#include "base/host_tensor.h"

namespace amp {

struct HalfType {
  int onnx = onnx::TensorProto::FLOAT16;  // the 16-bit type: FLOAT16 or BFLOAT16
  DType dtype() const { return onnx == onnx::TensorProto::FLOAT16 ? DType::f16 : DType::bf16; }
  float largest() const { return onnx == onnx::TensorProto::FLOAT16 ? 65504.f : 3.3895314e38f; }
  float smallest() const { return onnx == onnx::TensorProto::FLOAT16 ? 0x1p-24f : 0x1p-133f; }
};

struct ConstantUse {
  bool weight = false;     // a weight: must fit into the type, else E_EXPORT_RANGE
  bool bound = false;      // read only as a bound of Clip, Max, Min or Pad
  bool nan_guard = false;  // the model contains an IsNaN
};

struct Narrowed {
  HostTensor value;
  bool masked = false;   // contains a mask that was changed
  bool clamped = false;  // contains a bound that was changed
  bool raised = false;   // one element too small for the type (an epsilon) became its smallest number
};

// Sets attributes that determine the type of a node's output to the 16-bit type. `narrow` converts a float32 tensor in
// such an attribute.
void retype_attributes(onnx::NodeProto& n, const HalfType& half, const std::function<void(onnx::TensorProto&)>& narrow);

Narrowed narrow_constant(const HostTensor& wide, const HalfType& type, const ConstantUse& use, const std::string& name);

}  // namespace amp
