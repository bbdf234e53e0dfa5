// Implements GraphEditor, and traversals of a SourceGraph that include captured values of nested graphs.
// normal_tensor() and uniform_tensor() draw from Philox by element index, so that results do not depend on threads or
// order.
#include "importer/surgery/edit.h"

#include <cmath>
#include <functional>

#include "base/philox.h"
#include "importer/read/build.h"
#include "importer/read/tensor.h"

namespace amp {

GraphEditor::GraphEditor(SourceGraph& g, Place place) : graph(g), place_(place) {
  const auto it = g.opsets.find("");
  version_ = it == g.opsets.end() ? 17 : it->second;
}

int GraphEditor::value(const std::string& name, SourceKind kind, DType t, HostTensor data) {
  SourceValue v;
  v.name = graph.fresh_name(name);
  v.kind = kind;
  v.dtype = t;
  v.dtype_known = true;
  v.data = std::move(data);
  if (v.data) {
    v.rank_known = true;
    for (const int64_t d : v.data.dims()) v.dims.push_back({d, ""});
  }
  return graph.add_value(std::move(v));
}

int GraphEditor::constant(const std::string& name, HostTensor t) {
  const DType type = t.dtype();
  return value(name, SourceKind::constant, type, std::move(t));
}

int GraphEditor::parameter(const std::string& name, HostTensor t, const std::string& reason) {
  const int v = value(name, SourceKind::parameter, DType::f32, std::move(t));
  graph.values[static_cast<size_t>(v)].trainable = true;
  graph.values[static_cast<size_t>(v)].reason = reason;
  return v;
}

int GraphEditor::node(const std::string& op, const std::string& name, std::vector<int> in, Attrs attrs, DType t) {
  const int out = value(name, SourceKind::temp, t);
  SourceNode n;
  n.name = "/" + graph.values[static_cast<size_t>(out)].name;
  n.op = op;
  n.version = version_;
  n.attrs = std::move(attrs);
  n.inputs = std::move(in);
  n.outputs = {out};
  n.place = place_;
  graph.add_node(std::move(n));
  return out;
}

int GraphEditor::cast(const std::string& name, int x, DType to) {
  return node("Cast", name, {x}, {{"to", int64_t{onnx_type_of(to)}}}, to);
}

int GraphEditor::unsqueeze(const std::string& name, int x, int64_t axis, DType t) {
  if (version_ < 13) return node("Unsqueeze", name, {x}, {{"axes", std::vector<int64_t>{axis}}}, t);
  return node("Unsqueeze", name, {x, constant(name + "_axes", HostTensor::of<int64_t>({1}, {axis}))}, {}, t);
}

int GraphEditor::reduce_sum(const std::string& name, int x, int64_t axis) {
  if (version_ < 13)
    return node("ReduceSum", name, {x}, {{"axes", std::vector<int64_t>{axis}}, {"keepdims", int64_t{0}}});
  return node("ReduceSum", name, {x, constant(name + "_axes", HostTensor::of<int64_t>({1}, {axis}))},
              {{"keepdims", int64_t{0}}});
}

int GraphEditor::reduce_mean(const std::string& name, int x, const std::vector<int64_t>& axes) {
  if (version_ < 18) return node("ReduceMean", name, {x}, {{"axes", axes}, {"keepdims", int64_t{0}}});
  const auto n = static_cast<int64_t>(axes.size());
  return node("ReduceMean", name, {x, constant(name + "_axes", HostTensor::of<int64_t>({n}, axes))},
              {{"keepdims", int64_t{0}}});
}

void GraphEditor::replace(int from, int to, int except) {
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    if (static_cast<int>(n) == except) continue;
    for (int& v : graph.nodes[n].inputs) v = v == from ? to : v;
  }
  for (int& v : graph.outputs) v = v == from ? to : v;
  SourceValue& a = graph.values[static_cast<size_t>(from)];
  SourceValue& b = graph.values[static_cast<size_t>(to)];
  b.dtype = a.dtype;
  b.dtype_known = a.dtype_known;
  b.rank_known = a.rank_known;
  b.dims = a.dims;
  const std::string name = a.name, other = b.name;
  graph.rename(to, graph.fresh_name(name + "/swap"));
  graph.rename(from, other);
  graph.rename(to, name);
}

void sort_nodes(SourceGraph& g) {
  // Indexed by node: 1 while the node's producers are being sorted, 2 once the node is in the new order.
  std::vector<char> state(g.nodes.size());
  std::vector<int> order;
  order.reserve(g.nodes.size());
  // The recursion is not deeper than the number of nodes that an edit adds, because nodes of the file are already
  // sorted.
  const std::function<void(int)> place = [&](int n) {
    if (n < 0 || state[static_cast<size_t>(n)]) return;
    state[static_cast<size_t>(n)] = 1;
    const SourceNode& node = g.nodes[static_cast<size_t>(n)];
    for (const int v : node.inputs) {
      if (v >= 0) place(g.values[static_cast<size_t>(v)].producer);
    }
    for (const std::string& name : captures(node)) {
      if (const int v = g.find(name); v >= 0) place(g.values[static_cast<size_t>(v)].producer);
    }
    state[static_cast<size_t>(n)] = 2;
    order.push_back(n);
  };
  for (size_t n = 0; n < g.nodes.size(); ++n) place(static_cast<int>(n));
  std::vector<SourceNode> sorted;
  sorted.reserve(order.size());
  for (const int n : order) sorted.push_back(std::move(g.nodes[static_cast<size_t>(n)]));
  g.nodes = std::move(sorted);
  for (size_t n = 0; n < g.nodes.size(); ++n) {
    for (const int v : g.nodes[n].outputs) {
      if (v >= 0) g.values[static_cast<size_t>(v)].producer = static_cast<int>(n);
    }
  }
}

bool is_plain_view(const SourceNode& n, bool transposes) {
  if (!n.domain.empty() || n.inputs.empty() || n.outputs.empty()) return false;
  const std::string& op = n.op;
  return op == "Identity" || op == "Cast" || op == "Reshape" || op == "Flatten" || op == "Squeeze" ||
         op == "Unsqueeze" || (transposes && op == "Transpose");
}

std::vector<char> downstream_of(const SourceGraph& g, const std::vector<int>& from) {
  std::vector<char> reached(g.values.size());
  for (const int v : from) reached[static_cast<size_t>(v)] = 1;
  for (const SourceNode& n : g.nodes) {
    bool any = false;
    for (const int v : n.inputs) any |= v >= 0 && reached[static_cast<size_t>(v)];
    for (const std::string& name : captures(n)) {
      const int v = g.find(name);
      any |= v >= 0 && reached[static_cast<size_t>(v)];
    }
    if (!any) continue;
    for (const int v : n.outputs) {
      if (v >= 0) reached[static_cast<size_t>(v)] = 1;
    }
  }
  return reached;
}

std::vector<char> upstream_of(const SourceGraph& g, const std::vector<int>& to) {
  std::vector<char> needed(g.values.size());
  for (const int v : to) needed[static_cast<size_t>(v)] = 1;
  for (size_t i = g.nodes.size(); i-- > 0;) {
    const SourceNode& n = g.nodes[i];
    bool any = false;
    for (const int v : n.outputs) any |= v >= 0 && needed[static_cast<size_t>(v)];
    if (!any) continue;
    for (const int v : n.inputs) {
      if (v >= 0) needed[static_cast<size_t>(v)] = 1;
    }
    for (const std::string& name : captures(n)) {
      if (const int v = g.find(name); v >= 0) needed[static_cast<size_t>(v)] = 1;
    }
  }
  return needed;
}

HostTensor normal_tensor(Dims dims, double deviation, uint64_t seed, uint64_t stream) {
  HostTensor t = HostTensor::empty(DType::f32, std::move(dims));
  float* p = t.as_mutable<float>();
  for (int64_t i = 0; i < t.numel(); i += 2) {
    const PhiloxBlock b = philox(seed, stream, static_cast<uint64_t>(i));
    const double u = (static_cast<double>(b.v[0]) + 1) / 4294967297.0, v = static_cast<double>(b.v[1]) / 4294967296.0;
    const double r = deviation * std::sqrt(-2 * std::log(u)), angle = 6.283185307179586 * v;
    p[i] = static_cast<float>(r * std::cos(angle));
    if (i + 1 < t.numel()) p[i + 1] = static_cast<float>(r * std::sin(angle));
  }
  return t;
}

HostTensor uniform_tensor(Dims dims, double bound, uint64_t seed, uint64_t stream) {
  HostTensor t = HostTensor::empty(DType::f32, std::move(dims));
  float* p = t.as_mutable<float>();
  for (int64_t i = 0; i < t.numel(); ++i) {
    const PhiloxBlock b = philox(seed, stream, static_cast<uint64_t>(i / 4));
    p[i] = static_cast<float>(bound * (2.0 * static_cast<double>(philox_uniform(b.v[i % 4])) - 1));
  }
  return t;
}

uint32_t name_hash(const std::string& name) {
  uint32_t h = 2166136261u;
  for (const unsigned char c : name) h = (h ^ c) * 16777619u;
  return h;
}

}  // namespace amp
