#include "graph/passes.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "graph/op.h"

namespace amp {

namespace {

// Copies a graph value by value. A node may be skipped by mapping its outputs first.
class Copier {
 public:
  explicit Copier(const Graph& g) : g_(g), map_(static_cast<size_t>(g.n_values())) {}

  ValueId operator()(ValueId v) {
    if (!v) return {};
    ValueId& to = map_[static_cast<size_t>(v.index)];
    if (to) return to;
    const Value& x = g_.value(v);
    switch (x.kind) {
      case ValueKind::input: to = out.add_input(x.name, x.dtype, x.dims); break;
      case ValueKind::param: to = out.add_param(x.slot, x.name, x.dtype, x.dims); break;
      case ValueKind::constant: to = out.add_constant(x.constant); break;
      case ValueKind::temp: bug("graph copy: a value is used before its node");
    }
    return to;
  }
  void alias(ValueId v, ValueId to) { map_[static_cast<size_t>(v.index)] = to; }

  void node(NodeId n, const std::vector<std::pair<DType, Dims>>& outputs) {
    const Node& node = g_.node(n);
    std::vector<ValueId> in;
    for (const ValueId v : node.in) in.push_back((*this)(v));
    const std::vector<ValueId> made = out.node(out.add_copy(node, std::move(in), outputs)).out;
    for (size_t i = 0; i < made.size(); ++i) alias(node.out[i], made[i]);
  }
  void finish() {
    for (const auto& o : g_.outputs) out.outputs.push_back({o.name, (*this)(o.value)});
    for (const auto& p : g_.param_grads) out.param_grads.push_back({p.slot, (*this)(p.value)});
  }

  Graph out;

 private:
  const Graph& g_;
  std::vector<ValueId> map_;
};

std::vector<std::pair<DType, Dims>> outputs_of(const Graph& g, const Node& n) {
  std::vector<std::pair<DType, Dims>> out;
  for (const ValueId v : n.out) out.emplace_back(g.value(v).dtype, g.value(v).dims);
  return out;
}

}  // namespace

Graph prune(const Graph& g) {
  std::vector<bool> wanted(static_cast<size_t>(g.n_values()), false), live(static_cast<size_t>(g.n_nodes()), false);
  for (const auto& o : g.outputs) wanted[static_cast<size_t>(o.value.index)] = true;
  for (const auto& p : g.param_grads) wanted[static_cast<size_t>(p.value.index)] = true;
  for (int32_t n = g.n_nodes(); n-- > 0;) {
    const Node& node = g.node(NodeId{n});
    live[static_cast<size_t>(n)] = std::any_of(node.out.begin(), node.out.end(), [&](ValueId v) { return wanted[static_cast<size_t>(v.index)]; });
    if (!live[static_cast<size_t>(n)]) continue;
    for (const ValueId v : node.in) {
      if (v) wanted[static_cast<size_t>(v.index)] = true;
    }
  }
  Copier copy(g);
  for (int32_t n = 0; n < g.n_nodes(); ++n) {
    if (live[static_cast<size_t>(n)]) copy.node(NodeId{n}, outputs_of(g, g.node(NodeId{n})));
  }
  copy.finish();
  return std::move(copy.out);
}

Graph absorb_casts(const Graph& g) {
  std::vector<int> uses(static_cast<size_t>(g.n_values()), 0);
  for (int32_t n = 0; n < g.n_nodes(); ++n) {
    for (const ValueId v : g.node(NodeId{n}).in) {
      if (v) ++uses[static_cast<size_t>(v.index)];
    }
  }
  for (const auto& o : g.outputs) ++uses[static_cast<size_t>(o.value.index)];
  for (const auto& p : g.param_grads) ++uses[static_cast<size_t>(p.value.index)];

  static const std::set<std::string> accumulates = {"MatMul", "ReduceSum", "ScatterRows", "ScatterElementsAdd", "ConvGradW", "LayerNormGradWeights"};
  std::vector<DType> stored(uses.size());
  std::vector<bool> gone(static_cast<size_t>(g.n_nodes()), false);
  for (int32_t i = 0; i < g.n_values(); ++i) stored[static_cast<size_t>(i)] = g.value(ValueId{i}).dtype;
  for (int32_t n = 0; n < g.n_nodes(); ++n) {
    const Node& cast = g.node(NodeId{n});
    if (cast.op->name != "Cast") continue;
    const Value& x = g.value(cast.in[0]);
    const DType to = g.value(cast.out[0]).dtype;
    if (x.kind != ValueKind::temp || uses[static_cast<size_t>(cast.in[0].index)] != 1 || !is_float(x.dtype) || !is_float(to)) continue;
    const Node& producer = g.node(x.producer);
    if (producer.op->view || producer.op->moves || producer.op->name == "Cast") continue;
    const bool up = is_low(x.dtype) && !is_low(to);
    if (up && producer.origin.compute != DType::f32 && !accumulates.count(producer.op->name)) continue;
    stored[static_cast<size_t>(cast.in[0].index)] = to;
    gone[static_cast<size_t>(n)] = true;
  }
  Copier copy(g);
  for (int32_t n = 0; n < g.n_nodes(); ++n) {
    const Node& node = g.node(NodeId{n});
    if (gone[static_cast<size_t>(n)]) {
      copy.alias(node.out[0], copy(node.in[0]));
      continue;
    }
    std::vector<std::pair<DType, Dims>> outputs = outputs_of(g, node);
    for (size_t i = 0; i < outputs.size(); ++i) outputs[i].first = stored[static_cast<size_t>(node.out[i].index)];
    copy.node(NodeId{n}, outputs);
  }
  copy.finish();
  return std::move(copy.out);
}

}  // namespace amp
