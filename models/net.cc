// Emits ONNX nodes of opset 17 through GraphEditor, in the decomposed forms that PyTorch's exporter writes, so that the
// importer's patterns recognize them. Node and weight names follow the exporter's conventions.
#include "models/net.h"

#include <cmath>

#include "base/error.h"
#include "base/text.h"

namespace amp {
namespace {

constexpr int64_t kOpset = 17;

SourceGraph empty_graph(std::string name) {
  SourceGraph g;
  g.name = std::move(name);
  g.opsets[""] = kOpset;
  return g;
}

// "encoder.layer.0.attention" -> "encoder/layer.0/attention": a list and its index are one part, as exporters write
// them.
std::string path_of(const std::string& module) {
  std::string out;
  for (const std::string& part : split(module, '.')) {
    if (!out.empty()) out += all_digits(part) ? '.' : '/';
    out += part;
  }
  return out;
}

}  // namespace

Net::Net(std::string name, WeightSource& weights)
    : graph_(empty_graph(std::move(name))), editor_(graph_), weights_(weights) {}

NetValue Net::input(const std::string& name, DType type, std::vector<Dim> dims) {
  check(graph_.inputs.size() == graph_.values.size(), "inputs of a net are added before other values");
  SourceValue v;
  v.name = name;
  v.kind = SourceKind::input;
  v.dtype = type;
  v.dtype_known = v.rank_known = true;
  v.dims = std::move(dims);
  graph_.inputs.push_back(graph_.add_value(std::move(v)));
  return graph_.inputs.back();
}

void Net::output(NetValue v, const std::string& name, std::vector<Dim> dims) {
  SourceValue& value = graph_.values[static_cast<size_t>(v)];
  graph_.rename(v, name);
  value.dims = std::move(dims);
  value.rank_known = true;
  graph_.outputs.push_back(v);
}

NetValue Net::op(const std::string& type, const std::string& module, std::vector<NetValue> in, Attrs attrs, DType t) {
  const std::string stem = module.empty() ? type : cat(path_of(module), '/', type);
  std::string path = stem;  // the node keeps this name even if an output's name replaces its value's name
  for (int k = 1; !taken_.insert(path).second; ++k) path = cat(stem, '_', k);
  return editor_.node(type, path, std::move(in), std::move(attrs), t);
}

NetValue Net::weight(const std::string& name, const Dims& dims, const Init& init) {
  if (const auto it = made_.find(name); it != made_.end()) return it->second;
  return made_[name] = editor_.parameter(name, weights_.get(name, dims, init), "a weight of the model that was built");
}

NetValue Net::ints(const std::string& module, const std::vector<int64_t>& values) {
  return editor_.constant(cat(path_of(module), "/Constant"),
                          HostTensor::of<int64_t>({static_cast<int64_t>(values.size())}, values));
}
NetValue Net::integer(const std::string& module, int64_t value) {
  return editor_.constant(cat(path_of(module), "/Constant"), HostTensor::scalar<int64_t>(value));
}
NetValue Net::number(const std::string& module, double value) {
  return editor_.constant(cat(path_of(module), "/Constant"), HostTensor::scalar<float>(static_cast<float>(value)));
}
NetValue Net::numbers(const std::string& module, const std::vector<float>& values) {
  return editor_.constant(cat(path_of(module), "/Constant"),
                          HostTensor::of<float>({static_cast<int64_t>(values.size())}, values));
}

NetValue Net::linear_without_bias(NetValue x, const std::string& module, int64_t in, int64_t out, const Init& w) {
  const NetValue weight_t = transpose(weight(module + ".weight", {out, in}, w), module, {1, 0});
  return op("MatMul", module, {x, weight_t});
}
NetValue Net::linear(NetValue x, const std::string& module, int64_t in, int64_t out, const Init& w, const Init& b) {
  const NetValue product = linear_without_bias(x, module, in, out, w);
  return add(product, weight(module + ".bias", {out}, b), module);
}

NetValue Net::embedding(NetValue ids, const std::string& module, int64_t rows, int64_t width, const Init& w) {
  return op("Gather", module, {weight(module + ".weight", {rows, width}, w), ids});
}

NetValue Net::layer_norm(NetValue x, const std::string& module, int64_t width, double epsilon) {
  return op(
      "LayerNormalization", module,
      {x, weight(module + ".weight", {width}, Init::constant(1)), weight(module + ".bias", {width}, Init::constant(0))},
      {{"axis", int64_t{-1}}, {"epsilon", epsilon}});
}

NetValue Net::layer_norm_without_bias(NetValue x, const std::string& module, int64_t width, double epsilon) {
  return op("LayerNormalization", module, {x, weight(module + ".weight", {width}, Init::constant(1))},
            {{"axis", int64_t{-1}}, {"epsilon", epsilon}});
}

NetValue Net::activation(NetValue x, const std::string& name, const std::string& module) {
  const auto times = [&](NetValue a, NetValue b) { return op("Mul", module, {a, b}); };
  if (name == "gelu") {  // x / 2 (1 + erf(x / sqrt 2))
    const NetValue erf = op("Erf", module, {op("Div", module, {x, number(module, std::sqrt(2.0))})});
    return times(times(x, add(erf, number(module, 1), module)), number(module, 0.5));
  }
  if (one_of(name,
             {"gelu_new", "gelu_pytorch_tanh", "gelu_fast"})) {  // x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))
    const NetValue cube = op("Pow", module, {x, number(module, 3)});
    const NetValue inner = add(x, times(cube, number(module, 0.044715)), module);
    const NetValue tanh = op("Tanh", module, {times(inner, number(module, std::sqrt(2 / M_PI)))});
    return times(times(x, number(module, 0.5)), add(tanh, number(module, 1), module));
  }
  if (one_of(name, {"silu", "swish"})) return times(x, op("Sigmoid", module, {x}));
  if (name == "quick_gelu") return times(x, op("Sigmoid", module, {times(x, number(module, 1.702))}));
  if (name == "sigmoid") return op("Sigmoid", module, {x});
  if (name == "relu") return op("Relu", module, {x});
  if (name == "tanh") return op("Tanh", module, {x});
  fail(Exit::unsupported, "E_CONFIG", cat("activation '", printable(name), "' is none that a model is built with"),
       "gelu, gelu_new, gelu_pytorch_tanh, silu, quick_gelu, relu, sigmoid or tanh");
}

NetValue Net::reshape(NetValue x, const std::string& module, const std::vector<int64_t>& dims) {
  return op("Reshape", module, {x, ints(module, dims)}, {}, graph_.value(x).dtype);
}
NetValue Net::transpose(NetValue x, const std::string& module, const std::vector<int64_t>& perm) {
  return op("Transpose", module, {x}, {{"perm", perm}}, graph_.value(x).dtype);
}
NetValue Net::unsqueeze(NetValue x, const std::string& module, const std::vector<int64_t>& axes, DType t) {
  return op("Unsqueeze", module, {x, ints(module, axes)}, {}, t);
}
NetValue Net::gather(NetValue x, const std::string& module, int64_t index, int64_t axis, DType t) {
  return op("Gather", module, {x, integer(module, index)}, {{"axis", axis}}, t);
}
NetValue Net::cast(NetValue x, const std::string& module, DType to) {
  return editor_.cast(cat(path_of(module), "/Cast"), x, to);
}

}  // namespace amp
