#include "importer/read/class_labels.h"

#include <cstring>

#include "importer/read/doc.h"

namespace amp {

namespace {

std::vector<std::string> of_tensor(const onnx::TensorProto& t) {
  std::vector<std::string> out;
  const auto add = [&](const auto& values) {
    for (const auto v : values) out.push_back(std::to_string(v));
  };
  if (t.data_type() == onnx::TensorProto::STRING) out.assign(t.string_data().begin(), t.string_data().end());
  const bool wide = t.data_type() == onnx::TensorProto::INT64;
  if (!wide && t.data_type() != onnx::TensorProto::INT32) return out;
  add(t.int64_data());
  add(t.int32_data());
  const std::string& raw = t.raw_data();
  const size_t size = wide ? sizeof(int64_t) : sizeof(int32_t);
  for (size_t at = 0; at + size <= raw.size(); at += size) {
    int64_t value = 0;
    int32_t narrow = 0;
    std::memcpy(wide ? static_cast<void*>(&value) : &narrow, raw.data() + at, size);
    out.push_back(std::to_string(wide ? value : narrow));
  }
  return out;
}

std::vector<std::string> of_node(const onnx::GraphProto& graph, const onnx::NodeProto& node) {
  std::vector<std::string> out;
  for (const auto& a : node.attribute()) {
    if (a.name() == "classlabels_strings") out.insert(out.end(), a.strings().begin(), a.strings().end());
    if (a.name() != "classlabels_int64s" && a.name() != "classlabels_ints") continue;
    for (const int64_t v : a.ints()) out.push_back(std::to_string(v));
  }
  if (!out.empty() || node.op_type() != "ArrayFeatureExtractor" || node.input_size() == 0) return out;
  for (const auto& t : graph.initializer()) {
    if (t.name() == node.input(0)) return of_tensor(t);
  }
  return {};
}

}  // namespace

std::vector<std::string> class_labels(const ModelDoc& doc) {
  std::vector<std::string> out;
  for (const auto& node : doc.proto->graph().node()) {
    if (node.domain() != "ai.onnx.ml") continue;
    const std::vector<std::string> labels = of_node(doc.proto->graph(), node);
    if (labels.size() < 2) continue;
    if (!out.empty() && labels != out) return {};
    out = labels;
  }
  return out;
}

}  // namespace amp
