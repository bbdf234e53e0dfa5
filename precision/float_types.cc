// Type rules of ONNX operators, as tables. The shape inference of the ONNX library would give these types, but
// precision/ must not include importer/. Types that the file declares take precedence.
#include "precision/float_types.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>

#include "graph/onnx_type.h"

namespace amp {

namespace {

using Names = std::set<std::string_view>;

const Names kBoolOut = {
    "Equal", "Greater", "GreaterOrEqual", "Less",           "LessOrEqual",        "And",        "Or", "Xor",
    "Not",   "IsNaN",   "IsInf",          "RegexFullMatch", "OptionalHasElement", "IsAllFinite"};
const Names kIntOut = {
    "Shape",          "Size",        "ArgMax",        "ArgMin",      "NonZero",       "NonMaxSuppression",
    "SequenceLength", "ConvInteger", "MatMulInteger", "QLinearConv", "QLinearMatMul", "QuantizeLinear"};
// Operators whose result has the type of the given input. Other operators have the type of input 0.
const std::map<std::string_view, size_t> kTypeFrom = {
    {"Where", 1}, {"OneHot", 2}, {"CastLike", 1}, {"DequantizeLinear", 1}};

DType onnx_type(int64_t code) { return dtype_of_onnx(code).value_or(DType::f32); }

DType output_type(const SourceNode& n, size_t output, const std::vector<DType>& types) {
  const auto input = [&](size_t i) {
    return i < n.inputs.size() && n.inputs[i] >= 0 ? types[static_cast<size_t>(n.inputs[i])] : DType::f32;
  };
  if (kBoolOut.count(n.op)) return DType::boolean;
  if (kIntOut.count(n.op)) return DType::i64;
  if (n.op == "Cast") return onnx_type(n.attrs.i("to", 1));
  if (n.op == "ConstantOfShape" || n.op == "Constant") {
    const HostTensor* value = n.attrs.tensor("value");
    if (value) return value->dtype();
    return n.attrs.has("value_int") || n.attrs.has("value_ints") ? DType::i64 : DType::f32;
  }
  if (n.op == "RandomNormal" || n.op == "RandomUniform" || n.op == "EyeLike" || n.op == "RandomNormalLike" ||
      n.op == "RandomUniformLike" || n.op == "Bernoulli") {
    return n.attrs.has("dtype") ? onnx_type(n.attrs.i("dtype", 1)) : input(0);
  }
  if (n.op == "Multinomial") return onnx_type(n.attrs.i("dtype", 6));
  if (n.op == "DynamicQuantizeLinear") return output == 1 ? DType::f32 : DType::u8;
  if (n.op == "Dropout" && output == 1) return DType::boolean;
  if ((n.op == "TopK" || n.op == "Unique" || n.op == "MaxPool") && output >= 1) return DType::i64;
  const auto from = kTypeFrom.find(n.op);
  return input(from == kTypeFrom.end() ? 0 : from->second);
}

}  // namespace

std::vector<DType> value_types(const SourceGraph& g) {
  std::vector<DType> types(g.values.size(), DType::f32);
  for (size_t v = 0; v < g.values.size(); ++v) {
    const SourceValue& value = g.values[v];
    types[v] = value.data ? value.data.dtype() : value.dtype;
  }
  for (const SourceNode& n : g.nodes) {
    for (size_t o = 0; o < n.outputs.size(); ++o) {
      if (n.outputs[o] < 0) continue;
      const auto v = static_cast<size_t>(n.outputs[o]);
      if (!g.values[v].dtype_known) types[v] = output_type(n, o, types);
    }
  }
  return types;
}

std::vector<char> carries_data(const SourceGraph& g, const std::vector<DType>& types) {
  std::vector<char> out(g.values.size(), 0);
  for (size_t v = 0; v < g.values.size(); ++v) {
    const SourceKind kind = g.values[v].kind;
    out[v] = is_float(types[v]) && (kind == SourceKind::parameter || kind == SourceKind::input);
  }
  for (const SourceNode& n : g.nodes) {
    // A shape does not count as data, even if it is the shape of data.
    if (n.op == "Shape" || n.op == "Size") continue;
    const bool any =
        std::any_of(n.inputs.begin(), n.inputs.end(), [&](int v) { return v >= 0 && out[static_cast<size_t>(v)]; });
    for (const int v : n.outputs) {
      if (v >= 0) out[static_cast<size_t>(v)] = any;
    }
  }
  return out;
}

bool is_data_input(const SourceNode& node, size_t position) {
  static const std::map<std::string_view, std::vector<size_t>> listed = {{"Resize", {0}},
                                                                         {"Upsample", {0}},
                                                                         {"Where", {1, 2}},
                                                                         {"Clip", {0}},
                                                                         {"Pad", {0}},
                                                                         {"Dropout", {0}},
                                                                         {"Gather", {0}},
                                                                         {"GatherElements", {0}},
                                                                         {"GatherND", {0}},
                                                                         {"ScatterND", {0, 2}},
                                                                         {"ScatterElements", {0, 2}},
                                                                         {"Scatter", {0, 2}},
                                                                         {"OneHot", {2}},
                                                                         {"Shape", {}},
                                                                         {"Size", {}},
                                                                         {"ConstantOfShape", {}},
                                                                         {"CastLike", {0}},
                                                                         {"BatchNormalization", {0}},
                                                                         {"InstanceNormalization", {0}},
                                                                         {"EyeLike", {}},
                                                                         {"RandomNormalLike", {}},
                                                                         {"RandomUniformLike", {}},
                                                                         {"Range", {}}};
  const auto it = listed.find(node.op);
  if (it == listed.end()) return true;
  return std::find(it->second.begin(), it->second.end(), position) != it->second.end();
}

bool promotes(const SourceNode& node) {
  static const Names names = {"Add",
                              "Sub",
                              "Mul",
                              "Div",
                              "Sum",
                              "Mean",
                              "Max",
                              "Min",
                              "Mod",
                              "Pow",
                              "Where",
                              "Concat",
                              "Equal",
                              "Greater",
                              "GreaterOrEqual",
                              "Less",
                              "LessOrEqual",
                              "GridSample",
                              "ScatterND",
                              "ScatterElements",
                              "Scatter",
                              "RotaryEmbedding"};
  return names.count(node.op) != 0;
}

bool keeps_range(const SourceNode& node) {
  static const Names names = {"Add",
                              "Sub",
                              "Mul",
                              "Sum",
                              "Where",
                              "Max",
                              "Min",
                              "Neg",
                              "Abs",
                              "Identity",
                              "Cast",
                              "Reshape",
                              "Flatten",
                              "Expand",
                              "Tile",
                              "Squeeze",
                              "Unsqueeze",
                              "Transpose",
                              "Concat",
                              "Slice",
                              "Split",
                              "Gather",
                              "GatherElements",
                              "GatherND",
                              "Pad",
                              "ScatterND",
                              "ScatterElements",
                              "Trilu",
                              "CastLike",
                              "ConstantOfShape"};
  return names.count(node.op) != 0;
}

}  // namespace amp
