// narrow_constant() distinguishes weights (must be in the type's range), bounds of Clip and the like (clamped),
// attention masks (large values become half of the type's largest) and epsilons (raised). retype_attributes() handles
// operators whose output type is an attribute.
#include "importer/write/half_constants.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "importer/read/tensor.h"
#include "importer/write/patch.h"

namespace amp {

Narrowed narrow_constant(const HostTensor& wide, const HalfType& type, const ConstantUse& use,
                         const std::string& name) {
  Narrowed out;
  if (use.weight) {
    out.value = narrow(wide, type.dtype(), name);
    return out;
  }
  const float largest = type.largest();
  HostTensor fitted = HostTensor::empty(DType::f32, wide.dims());
  const float* from = wide.as<float>();
  float* to = fitted.as_mutable<float>();
  for (int64_t i = 0; i < wide.numel(); ++i) {
    const float x = to[i] = from[i];
    const bool beyond = std::isfinite(x) ? std::fabs(x) > largest || x == -largest : x < 0 && !use.nan_guard;
    if (use.bound && std::isfinite(x) && std::fabs(x) > largest) {
      to[i] = std::copysign(largest, x);
      out.clamped = true;
    } else if (!use.bound && beyond) {
      to[i] = std::copysign(largest / 2, x);
      out.masked = true;
    } else if (wide.numel() == 1 && x != 0 && std::fabs(x) < type.smallest()) {
      to[i] = std::copysign(type.smallest(), x);
      out.raised = true;
    }
  }
  out.value = fitted.cast(type.dtype());
  return out;
}

void retype_attributes(onnx::NodeProto& n, const HalfType& half,
                       const std::function<void(onnx::TensorProto&)>& narrow) {
  const std::string& op = n.op_type();
  const auto find = [&](const std::string& name) {
    auto& all = *n.mutable_attribute();
    const auto it = std::find_if(all.begin(), all.end(), [&](const auto& a) { return a.name() == name; });
    return it == all.end() ? nullptr : &*it;
  };
  const auto add = [&](const std::string& name, onnx::AttributeProto::AttributeType type) {
    auto& a = *n.add_attribute();
    a.set_name(name);
    a.set_type(type);
    return &a;
  };
  if (op == "Constant") {
    for (auto& a : *n.mutable_attribute()) {
      if (a.name() == "value_float" || a.name() == "value_floats") {
        HostTensor t = a.name() == "value_float"
                           ? HostTensor::scalar<float>(a.f())
                           : HostTensor::of<float>({a.floats_size()}, {a.floats().begin(), a.floats().end()});
        a.clear_f();
        a.clear_floats();
        a.set_name("value");
        a.set_type(onnx::AttributeProto::TENSOR);
        *a.mutable_t() = encode(t, "");
      }
      if (a.has_t() && a.t().data_type() == onnx::TensorProto::FLOAT) narrow(*a.mutable_t());
    }
  } else if (op == "ConstantOfShape") {
    if (auto* value = find("value")) {
      if (value->t().data_type() == onnx::TensorProto::FLOAT) narrow(*value->mutable_t());
    } else {  // default: float32 zero
      *add("value", onnx::AttributeProto::TENSOR)->mutable_t() = encode(HostTensor::zeros(half.dtype(), {1}), "");
    }
  } else if (op == "Cast") {
    find("to")->set_i(half.onnx);
  } else if (one_of(op, {"RandomNormal", "RandomUniform", "EyeLike", "RandomNormalLike", "RandomUniformLike",
                         "Bernoulli", "HannWindow", "HammingWindow", "BlackmanWindow", "DequantizeLinear"})) {
    const std::string key = op.find("Window") != std::string::npos ? "output_datatype"
                            : op == "DequantizeLinear"             ? "output_dtype"
                                                                   : "dtype";
    if (auto* type = find(key)) {
      if (type->i() == onnx::TensorProto::FLOAT) type->set_i(half.onnx);
    } else if (op.find("Like") == std::string::npos && op != "Bernoulli" && op != "DequantizeLinear") {
      add(key, onnx::AttributeProto::INT)->set_i(half.onnx);
    }
  }
}

}  // namespace amp
