// Binds a graph of one ONNX node, differentiates it with a given upstream gradient and runs it in the naive
// interpreter. Storage types of all temporaries can be changed, to test 16-bit storage.
#include "tests/ops/one_node.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "backend/interpreter.h"
#include "graph/autodiff.h"
#include "graph/bind.h"

namespace amp {

namespace {
// Returns a copy of the graph whose floating-point temporaries and parameters are stored in another type.
Graph stored_as(const Graph& from, DType storage) {
  Graph g = from;
  for (int32_t i = 0; i < g.n_values(); ++i) {
    const Value& v = g.value(ValueId{i});
    if (v.kind != ValueKind::constant && is_float(v.dtype)) g.set_dtype(ValueId{i}, storage);
  }
  return g;
}
}  // namespace

NodeRun run_node(const OneNode& n, const HostTensor& dy, const std::vector<size_t>& wrt, DType float_type,
                 DType storage) {
  SourceGraph s;
  SourceNode node;
  node.name = "node";
  node.op = n.op;
  node.version = n.version;
  node.attrs = n.attrs;
  std::vector<HostTensor> params;
  for (size_t i = 0; i < n.inputs.size(); ++i) {
    if (!n.inputs[i]) {
      node.inputs.push_back(-1);
      continue;
    }
    SourceValue v;
    v.name = "x" + std::to_string(i);
    const bool fixed = std::find(n.fixed.begin(), n.fixed.end(), i) != n.fixed.end();
    v.kind = is_float(n.inputs[i].dtype()) && !fixed ? SourceKind::parameter : SourceKind::constant;
    v.dtype = n.inputs[i].dtype();
    v.data = n.inputs[i];
    node.inputs.push_back(s.add_value(v));
    if (v.kind == SourceKind::parameter) params.push_back(v.data);
  }
  for (size_t i = 0; i < n.n_outputs; ++i) {
    SourceValue v;
    v.name = "y" + std::to_string(i);
    node.outputs.push_back(s.add_value(v));
  }
  const auto inputs = node.inputs, outputs = node.outputs;
  s.add_node(node);

  Graph g;
  Builder b(g, cpu_evaluator());
  const ParamTable table(s);
  BindOptions o;
  o.float_type = float_type;
  o.outputs = outputs;
  o.batchnorm_train = n.batchnorm_train;
  const Bound bound = bind(s, table, o, b);
  const auto value = [&](int source) { return bound.values[static_cast<size_t>(source)]; };
  for (size_t i = 0; i < n.n_outputs; ++i) g.outputs.push_back({"y" + std::to_string(i), value(outputs[i])});
  std::map<std::string, HostTensor> feeds;
  std::map<int, size_t> input_of_slot;
  if (dy) {
    std::vector<ValueId> leaves;
    for (const size_t i : wrt) leaves.push_back(value(inputs[i]));
    const ValueId seed = g.add_input("dy", float_type, dy.dims());
    feeds["dy"] = dy;
    Autodiff ad(b, leaves);
    ad.seed(value(outputs[0]), seed);
    ad.run();
    for (size_t i = 0; i < wrt.size(); ++i) {
      const int slot = g.value(leaves[i]).slot;
      input_of_slot[slot] = wrt[i];
      g.param_grads.push_back({slot, ad.grad(leaves[i])});
    }
  }
  const Interpreted r = interpret(storage == float_type ? g : stored_as(g, storage), feeds, params);
  NodeRun out;
  for (size_t i = 0; i < n.n_outputs; ++i) out.outputs.push_back(r.outputs.at("y" + std::to_string(i)));
  for (const auto& [slot, t] : r.param_grads) out.grads[input_of_slot.at(slot)] = t;
  return out;
}

HostTensor random_tensor(Dims dims, uint64_t seed) {
  HostTensor t = HostTensor::empty(DType::f64, std::move(dims));
  std::mt19937_64 bits(seed);
  double* p = t.as_mutable<double>();
  // A sum of uniform numbers (Irwin-Hall), because std::normal_distribution differs between standard libraries.
  for (int64_t i = 0; i < t.numel(); ++i) {
    double sum = -6;
    for (int k = 0; k < 12; ++k) sum += static_cast<double>(bits() >> 11) * 0x1p-53;
    p[i] = sum;
  }
  return t;
}

double distance(const HostTensor& a, const HostTensor& b) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  if (a.dims() != b.dims()) return kInf;
  const std::vector<double> x = a.to_doubles(), y = b.to_doubles();
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    if (std::isnan(x[i]) || std::isnan(y[i])) {
      if (std::isnan(x[i]) != std::isnan(y[i])) return kInf;
    } else if (x[i] != y[i]) {
      worst = std::max(worst, std::abs(x[i] - y[i]) / (1 + std::abs(y[i])));
    }
  }
  return worst;
}

bool same_bits(const HostTensor& a, const HostTensor& b) {
  return a.dtype() == b.dtype() && a.dims() == b.dims() &&
         std::memcmp(a.data(), b.data(), static_cast<size_t>(a.bytes())) == 0;
}

}  // namespace amp
