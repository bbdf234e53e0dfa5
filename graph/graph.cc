// Append-only storage of values and nodes. add_node() runs shape inference. add_copy() takes the types and shapes of
// the outputs from its caller without checking them.
#include "graph/graph.h"

#include "base/error.h"
#include "graph/op.h"

namespace amp {

Graph::Graph() = default;
Graph::Graph(const Graph&) = default;
Graph::Graph(Graph&&) noexcept = default;
Graph& Graph::operator=(const Graph&) = default;
Graph& Graph::operator=(Graph&&) noexcept = default;
Graph::~Graph() = default;

ValueId Graph::push(Value v) {
  values_.push_back(std::move(v));
  return ValueId{n_values() - 1};
}

ValueId Graph::add_input(std::string name, DType dtype, Dims dims) {
  Value v;
  v.kind = ValueKind::input;
  v.dtype = dtype;
  v.dims = std::move(dims);
  v.name = std::move(name);
  return push(std::move(v));
}

ValueId Graph::add_param(int slot, std::string name, DType dtype, Dims dims) {
  Value v;
  v.kind = ValueKind::param;
  v.dtype = dtype;
  v.dims = std::move(dims);
  v.slot = slot;
  v.name = std::move(name);
  return push(std::move(v));
}

ValueId Graph::add_constant(HostTensor t) {
  Value v;
  v.kind = ValueKind::constant;
  v.dtype = t.dtype();
  v.dims = t.dims();
  v.constant = std::move(t);
  return push(std::move(v));
}

static std::string describe(const Graph& g, const OpDef& op, const std::vector<ValueId>& in) {
  std::string s = op.name + "(";
  for (size_t i = 0; i < in.size(); ++i) {
    if (i) s += ", ";
    s += in[i] ? cat(name_of(g.value(in[i]).dtype), to_string(g.value(in[i]).dims)) : "-";
  }
  return s + ")";
}

NodeId Graph::add_node(const OpDef& op, std::vector<ValueId> in, Attrs attrs, Origin origin) {
  InferCtx c{*this, in, attrs, {}};
  try {
    op.infer(c);
  } catch (Error& e) {
    throw e.at("in " + describe(*this, op, in));
  }
  const NodeId id{n_nodes()};
  Node n;
  n.op = &op;
  n.in = std::move(in);
  n.attrs = std::move(attrs);
  n.origin = origin;
  for (auto& [dtype, dims] : c.outputs) {
    Value v;
    v.dtype = dtype;
    v.dims = std::move(dims);
    v.producer = id;
    n.out.push_back(push(std::move(v)));
  }
  nodes_.push_back(std::move(n));
  return id;
}

NodeId Graph::add_copy(const Node& like, std::vector<ValueId> in, const std::vector<std::pair<DType, Dims>>& outputs) {
  const NodeId id{n_nodes()};
  Node n = like;
  n.in = std::move(in);
  n.out.clear();
  for (const auto& [dtype, dims] : outputs) {
    Value v;
    v.dtype = dtype;
    v.dims = dims;
    v.producer = id;
    n.out.push_back(push(std::move(v)));
  }
  nodes_.push_back(std::move(n));
  return id;
}

ValueId Graph::input(const std::string& name) const {
  for (int32_t i = 0; i < n_values(); ++i) {
    if (values_[static_cast<size_t>(i)].kind == ValueKind::input && values_[static_cast<size_t>(i)].name == name)
      return ValueId{i};
  }
  return {};
}

std::string Graph::dump() const {
  std::ostringstream s;
  const auto show = [&](ValueId v) {
    if (!v) return std::string("-");
    const Value& x = value(v);
    const char* kind = x.kind == ValueKind::param      ? "p"
                       : x.kind == ValueKind::input    ? "in"
                       : x.kind == ValueKind::constant ? "c"
                                                       : "v";
    return cat(kind, v.index, ":", name_of(x.dtype), to_string(x.dims));
  };
  for (const Node& n : nodes_) {
    for (size_t i = 0; i < n.out.size(); ++i) s << (i ? ", " : "") << show(n.out[i]);
    s << " = " << n.op->name << "(";
    for (size_t i = 0; i < n.in.size(); ++i) s << (i ? ", " : "") << show(n.in[i]);
    s << ") " << n.attrs.key();
    if (n.origin.source_node >= 0 || *n.origin.role) s << "  # " << n.origin.role << " #" << n.origin.source_node;
    s << '\n';
  }
  for (const auto& o : outputs) s << "output " << o.name << " = " << show(o.value) << '\n';
  for (const auto& p : param_grads) s << "grad " << p.slot << " = " << show(p.value) << '\n';
  return s.str();
}

}  // namespace amp
