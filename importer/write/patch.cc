// Replaces payloads at their slots (importer/read/doc.h). A changed value goes to where the file stored it: an
// attribute, a typed field, raw_data, an external file, or a ConstantOfShape that becomes a Constant. Unchanged values
// keep their bytes.
#include "importer/write/patch.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "graph/folded_rows.h"
#include "importer/read/tensor.h"

namespace amp {
namespace {

// Transposes the last two dims; leading dims are 1.
HostTensor transpose(const HostTensor& t) {
  Dims dims = t.dims();
  const int64_t rows = dims[dims.size() - 2], columns = dims.back();
  std::swap(dims[dims.size() - 2], dims.back());
  HostTensor out = HostTensor::empty(DType::f32, std::move(dims));
  const float* in = t.as<float>();
  float* p = out.as_mutable<float>();
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) p[j * rows + i] = in[i * columns + j];
  }
  return out;
}

bool same_bytes(const HostTensor& a, const HostTensor& b) {
  return a.dtype() == b.dtype() && a.dims() == b.dims() &&
         (a.bytes() == 0 || std::memcmp(a.data(), b.data(), static_cast<size_t>(a.bytes())) == 0);
}

// Returns the tensor of parameter v, which is tied to the parameter with the tensor `master`.
HostTensor copy_of_master(const SourceValue& v, const HostTensor& master) {
  if (v.tied_transposed) return transpose(master);
  if (v.tied_axis < 0) return numel(v.data.dims()) == master.numel() ? master.reshaped(v.data.dims()) : master;
  const Dims& whole = v.data.dims();
  const auto axis = static_cast<size_t>(v.tied_axis);
  Dims one = whole;
  one[axis] = master.rank() == v.data.rank() ? master.dims()[axis] : whole[axis] / (numel(whole) / master.numel());
  HostTensor out = master;
  if (master.rank() != v.data.rank()) out = master.reshaped(one);
  for (size_t a = 0; a < one.size(); ++a) {
    if (out.dims()[a] != one[a]) out = repeated(out, static_cast<int>(a), 1, one[a]);
  }
  return repeated(out, v.tied_axis, one[axis], whole[axis] / one[axis]);
}

// Turns the ConstantOfShape node that creates the weight `name` into a Constant with the given value.
void replace_fill(onnx::ModelProto& model, const std::string& name, const HostTensor& value) {
  for (auto& n : *model.mutable_graph()->mutable_node()) {
    if (n.op_type() != "ConstantOfShape" || n.output_size() != 1 || n.output(0) != name) continue;
    n.set_op_type("Constant");
    n.clear_input();
    n.clear_attribute();
    auto& a = *n.add_attribute();
    a.set_name("value");
    a.set_type(onnx::AttributeProto::TENSOR);
    *a.mutable_t() = encode(value, "");
    return;
  }
  bug(cat("no place in the file for parameter '", name, "'"));
}

// Replaces the file's tensor by one of another size or type.
void resize(const Slot& slot, const HostTensor& value, Patched& out) {
  if (slot.attribute) {
    slot.attribute->clear_floats();
    for (int64_t i = 0; i < value.numel(); ++i) slot.attribute->add_floats(value.as<float>()[i]);
    return;
  }
  const auto outside = out.external.find(slot.tensor);
  onnx::TensorProto t = encode(value, slot.tensor->name());
  if (slot.tensor->has_doc_string()) t.set_doc_string(slot.tensor->doc_string());
  if (outside != out.external.end()) {
    outside->second = value;
    t.clear_raw_data();
    t.set_data_location(onnx::TensorProto::EXTERNAL);
  }
  *slot.tensor = std::move(t);
  for (auto& input : *out.proto.mutable_graph()->mutable_input()) {  // before IR version 4 a weight is also an input
    if (input.name() != slot.tensor->name()) continue;
    auto& shape = *input.mutable_type()->mutable_tensor_type()->mutable_shape();
    shape.clear_dim();
    for (const int64_t d : value.dims()) shape.add_dim()->set_dim_value(d);
  }
}

}  // namespace

HostTensor narrow(const HostTensor& value, DType to, const std::string& name) {
  HostTensor out = value.cast(to);
  if (!is_low(to) || value.dtype() != DType::f32) return out;
  const float limit = to == DType::f16 ? 65504.f : 3.3895314e38f;
  int64_t beyond = 0;
  float largest = 0;
  const float* p = value.as<float>();
  for (int64_t i = 0; i < value.numel(); ++i) {
    const float x = std::fabs(p[i]);
    if (std::isfinite(x) && x > limit) {
      ++beyond;
      largest = std::max(largest, x);
    }
  }
  if (beyond) {
    fail(Exit::numerical, "E_EXPORT_RANGE",
         cat("tensor '", printable(name), "' holds ", beyond, " values beyond ", name_of(to), " (largest ", largest,
             ", limit ", limit, ")"),
         to == DType::f16 ? "export in fp32" : "");
  }
  return out;
}

std::map<int, HostTensor> spread_ties(const SourceGraph& graph, const std::vector<TrainedTensor>& trained) {
  std::map<int, HostTensor> values;
  for (const TrainedTensor& t : trained) {
    const SourceValue& v = graph.values.at(static_cast<size_t>(t.source_value));
    check(v.kind == SourceKind::parameter && t.value.dtype() == DType::f32, "export: not an fp32 parameter");
    check(t.value.dims() == v.data.dims(), "export: a trained tensor has other dims than its parameter");
    values[t.source_value] = t.value;
  }
  for (size_t i = 0; i < graph.values.size(); ++i) {
    const SourceValue& v = graph.values[i];
    if (v.replaced && v.data) values.emplace(static_cast<int>(i), v.data.cast(DType::f32));
    if (v.kind != SourceKind::parameter || v.tied_to < 0) continue;
    const auto master = values.find(v.tied_to);
    if (master != values.end()) values.emplace(static_cast<int>(i), copy_of_master(v, master->second));
  }
  return values;
}

Patched patch_payloads(const ModelDoc& doc, const SourceGraph& graph, const std::map<int, HostTensor>& values,
                       bool float32) {
  Patched out;
  out.proto = *doc.proto;
  std::vector<Slot> slots;
  std::map<onnx::TensorProto*, HostTensor> large;
  for_each_slot(out.proto, [&](int number, Slot slot) {
    slots.push_back(slot);
    if (const auto it = doc.external.find(number); it != doc.external.end()) out.external[slot.tensor] = it->second;
    if (const auto it = doc.large.find(number); it != doc.large.end()) large[slot.tensor] = it->second;
  });
  // Write each changed value to the place where the file stores it; unchanged values keep their bytes.
  for (const auto& [index, value] : values) {
    if (index >= doc.values) continue;
    const int number = doc.slot_of[static_cast<size_t>(index)];
    const SourceValue& v = graph.values[static_cast<size_t>(index)];
    // Separated copies are written by append_added().
    if (doc.separated.count(index)) continue;
    if (!v.replaced && v.data && same_bytes(v.data.cast(DType::f32), value)) continue;
    const bool widened = float32 && is_low(v.data.dtype());
    const HostTensor stored = narrow(value, widened ? DType::f32 : v.data.dtype(), v.name);
    if (number < 0) {
      replace_fill(out.proto, v.name, stored);
      continue;
    }
    const Slot slot = slots[static_cast<size_t>(number)];
    if (v.replaced || (widened && slot.tensor)) {
      resize(slot, stored, out);
      large.erase(slot.tensor);
    } else if (const auto of_file = large.find(slot.tensor); of_file != large.end()) {
      of_file->second = stored;
    } else if (slot.attribute) {
      const float* p = stored.as<float>();
      if (slot.attribute->has_f()) slot.attribute->set_f(p[0]);
      for (int i = 0; i < slot.attribute->floats_size(); ++i) slot.attribute->set_floats(i, p[i]);
    } else if (const auto it = out.external.find(slot.tensor); it != out.external.end()) {
      it->second = stored;
    } else {
      store(stored, *slot.tensor);
    }
  }
  for (const auto& [tensor, value] : large) store(value, *tensor);
  for (const auto& [tensor, value] : out.external) check(bool(value), "export: a released parameter has no value");
  return out;
}

}  // namespace amp
