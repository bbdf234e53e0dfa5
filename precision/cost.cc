// Reads storage types, bytes and casts from a graph to which the plan is applied. The origin of a node gives its source
// node. A value is stored if it is a graph output or if a forward node of another source node reads it.
#include "precision/cost.h"

#include <string_view>

#include "graph/op.h"

namespace amp {

namespace {

bool is_backward(const Node& n) { return std::string_view(n.origin.role) == "gradient of"; }

class Measure {
 public:
  Measure(const Graph& g, size_t source_nodes) : g_(g), read_(static_cast<size_t>(g.n_values()), 0) {
    cost_.nodes.resize(source_nodes);
  }

  PlanCost run() {
    for (int32_t i = 0; i < g_.n_values(); ++i) {
      const Value& v = g_.value(ValueId{i});
      if (v.kind == ValueKind::input && v.name != "label" && v.name.rfind("seed.", 0) != 0)
        cost_.shapes[v.name] = v.dims;
    }
    for (const auto& o : g_.outputs) read_[static_cast<size_t>(o.value.index)] = 1;
    for (int32_t n = 0; n < g_.n_nodes(); ++n) see_reads(g_.node(NodeId{n}));
    for (int32_t n = 0; n < g_.n_nodes(); ++n) see(g_.node(NodeId{n}));
    return std::move(cost_);
  }

 private:
  NodeCost* cost_of(int source) {
    const bool known = source >= 0 && static_cast<size_t>(source) < cost_.nodes.size();
    return known ? &cost_.nodes[static_cast<size_t>(source)] : nullptr;
  }
  int source_of(ValueId v) const {
    const Value& x = g_.value(v);
    return x.kind == ValueKind::temp ? g_.node(x.producer).origin.source_node : -1;
  }

  // Marks the operands of a forward node that another source node has computed. If the node is a Cast that was inserted
  // for its reader, marks the operand of the Cast even if the same source node computed it.
  void see_reads(const Node& n) {
    if (is_backward(n)) return;
    for (const ValueId v : n.in) {
      const bool cast_for = std::string_view(n.origin.role) == "cast for";
      if (v && (cast_for || source_of(v) != n.origin.source_node)) read_[static_cast<size_t>(v.index)] = 1;
    }
  }

  bool inserted_cast(const Node& n) const {
    if (n.op->name != "Cast" || (!*n.origin.role && n.origin.source_node >= 0)) return false;
    return is_float(g_.value(n.in[0]).dtype) && is_float(g_.value(n.out[0]).dtype);
  }

  void see(const Node& n) {
    if (inserted_cast(n)) {
      NodeCost* at = cost_of(n.origin.source_node);
      if (!at) at = cost_of(source_of(n.in[0]));
      const Value &from = g_.value(n.in[0]), &to = g_.value(n.out[0]);
      const int64_t bytes = numel(to.dims) * (size_of(from.dtype) + size_of(to.dtype));
      if (at) at->casts.push_back({from.dtype, to.dtype, from.kind == ValueKind::param, is_backward(n), bytes});
      return;
    }
    NodeCost* at = cost_of(n.origin.source_node);
    if (!at || is_backward(n)) return;
    for (const ValueId v : n.out) {
      const Value& x = g_.value(v);
      if (read_[static_cast<size_t>(v.index)]) at->storage.push_back(x.dtype);
      if (!n.op->view) at->bytes += numel(x.dims) * size_of(x.dtype);
    }
  }

  const Graph& g_;
  std::vector<char> read_;  // indexed by value: whether it must be stored
  PlanCost cost_;
};

}  // namespace

int64_t PlanCost::stored_bytes() const {
  int64_t n = 0;
  for (const NodeCost& c : nodes) n += c.bytes;
  return n;
}

std::vector<CastCost> PlanCost::casts() const {
  std::vector<CastCost> out;
  for (const NodeCost& c : nodes) out.insert(out.end(), c.casts.begin(), c.casts.end());
  return out;
}

PlanCost measure_plan(const Graph& g, size_t source_nodes) { return Measure(g, source_nodes).run(); }

}  // namespace amp
