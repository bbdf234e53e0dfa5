// prune() and absorb_casts(). Both copy the graph with Copier, because graphs are append-only. absorb_casts() first
// removes round trips (casts to another type and back). Then it decides for each Cast from the number of readers, the
// producer and the plan's compute type.
#include "graph/passes.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "graph/copier.h"
#include "graph/op.h"

namespace amp {

ValueId skip_views(const Graph& g, ValueId v) {
  while (g.value(v).kind == ValueKind::temp && g.node(g.value(v).producer).op->view)
    v = g.node(g.value(v).producer).in[0];
  return v;
}

Graph prune(const Graph& g) {
  std::vector<bool> wanted(static_cast<size_t>(g.n_values()), false), live(static_cast<size_t>(g.n_nodes()), false);
  for (const auto& o : g.outputs) wanted[static_cast<size_t>(o.value.index)] = true;
  for (const auto& p : g.param_grads) wanted[static_cast<size_t>(p.value.index)] = true;
  for (int32_t n = g.n_nodes(); n-- > 0;) {
    const Node& node = g.node(NodeId{n});
    live[static_cast<size_t>(n)] =
        std::any_of(node.out.begin(), node.out.end(), [&](ValueId v) { return wanted[static_cast<size_t>(v.index)]; });
    if (!live[static_cast<size_t>(n)]) continue;
    for (const ValueId v : node.in) {
      if (v) wanted[static_cast<size_t>(v.index)] = true;
    }
  }
  Copier copy(g);
  for (int32_t n = 0; n < g.n_nodes(); ++n) {
    if (live[static_cast<size_t>(n)]) copy.node(NodeId{n}, types_of(g, g.node(NodeId{n}).out));
  }
  copy.finish();
  return std::move(copy.out);
}

namespace {

// Returns for each value how many nodes and outputs read it.
std::vector<int> count_uses(const Graph& g) {
  std::vector<int> uses(static_cast<size_t>(g.n_values()), 0);
  for (int32_t n = 0; n < g.n_nodes(); ++n) {
    for (const ValueId v : g.node(NodeId{n}).in) {
      if (v) ++uses[static_cast<size_t>(v.index)];
    }
  }
  for (const auto& o : g.outputs) ++uses[static_cast<size_t>(o.value.index)];
  for (const auto& p : g.param_grads) ++uses[static_cast<size_t>(p.value.index)];
  return uses;
}

bool is_cast(const Graph& g, const Node& n, bool up) {
  if (n.op->name != "Cast") return false;
  const DType from = g.value(n.in.at(0)).dtype, to = g.value(n.out.at(0)).dtype;
  return (up ? is_low(from) && to == DType::f32 : from == DType::f32 && is_low(to));
}

// Replaces a pair of Casts by its source. A pair 16 bits -> fp32 -> 16 bits changes no value. A pair fp32 -> 16 bits ->
// fp32 rounds; it is replaced if the 16-bit value has no other reader (the gradient of a weight that was cast).
Graph drop_round_trips(const Graph& g) {
  const std::vector<int> uses = count_uses(g);
  const auto source = [&](const Node& node) -> ValueId {
    if (node.op->name != "Cast" || g.value(node.in[0]).kind != ValueKind::temp) return {};
    const Node& first = g.node(g.value(node.in[0]).producer);
    const bool back = g.value(node.out[0]).dtype == g.value(first.in.empty() ? node.out[0] : first.in[0]).dtype;
    const bool widens = is_cast(g, node, false) && is_cast(g, first, true);
    const bool rounds =
        is_cast(g, node, true) && is_cast(g, first, false) && uses[static_cast<size_t>(node.in[0].index)] == 1;
    return back && (widens || rounds) ? first.in[0] : ValueId{};
  };
  Copier copy(g);
  for (int32_t n = 0; n < g.n_nodes(); ++n) {
    const Node& node = g.node(NodeId{n});
    if (const ValueId v = source(node)) {
      copy.alias(node.out[0], copy(v));
    } else {
      copy.node(NodeId{n}, types_of(g, node.out));
    }
  }
  copy.finish();
  return prune(copy.out);
}

}  // namespace

Graph absorb_casts(const Graph& original) {
  const Graph g = drop_round_trips(original);
  const std::vector<int> uses = count_uses(g);
  // Gradients of parameters are accumulated in fp32, so they are marked here.
  std::vector<bool> of_param(uses.size(), false);
  for (const auto& p : g.param_grads) of_param[static_cast<size_t>(p.value.index)] = true;
  static const std::set<std::string> accumulates = {
      "MatMul",    "MatMulBiasGrad",      "ReduceSum", "ScatterRows", "ScatterElementsAdd",
      "ConvGradW", "LayerNormGradWeights"};
  std::vector<DType> stored(uses.size());
  std::vector<bool> gone(static_cast<size_t>(g.n_nodes()), false);
  for (int32_t i = 0; i < g.n_values(); ++i) stored[static_cast<size_t>(i)] = g.value(ValueId{i}).dtype;
  // A Cast is absorbed if only this Cast reads its input and the node that computes the input may store the Cast's
  // type.
  for (int32_t n = 0; n < g.n_nodes(); ++n) {
    const Node& cast = g.node(NodeId{n});
    if (cast.op->name != "Cast") continue;
    const Value& x = g.value(cast.in[0]);
    const DType to = g.value(cast.out[0]).dtype;
    if (x.kind != ValueKind::temp || uses[static_cast<size_t>(cast.in[0].index)] != 1 || !is_float(x.dtype) ||
        !is_float(to))
      continue;
    const Node& producer = g.node(x.producer);
    if (producer.op->view || producer.op->moves || producer.op->name == "Cast") continue;
    const bool up = is_low(x.dtype) && !is_low(to);
    const bool wanted =
        of_param[static_cast<size_t>(cast.out[0].index)] && uses[static_cast<size_t>(cast.out[0].index)] == 1;
    if (up && producer.origin.compute != DType::f32 && !accumulates.count(producer.op->name) && !wanted) continue;
    stored[static_cast<size_t>(cast.in[0].index)] = to;
    gone[static_cast<size_t>(n)] = true;
  }
  // Arithmetic kernels widen 16-bit values on load. So they can read the input of an up-cast instead of its output:
  // narrow[v] is that input if v is the output of a remaining up-cast, else v.
  std::vector<ValueId> narrow(uses.size());
  for (int32_t i = 0; i < g.n_values(); ++i) narrow[static_cast<size_t>(i)] = ValueId{i};
  for (int32_t n = 0; n < g.n_nodes(); ++n) {
    const Node& cast = g.node(NodeId{n});
    if (cast.op->name != "Cast" || gone[static_cast<size_t>(n)]) continue;
    if (!is_low(stored[static_cast<size_t>(cast.in[0].index)]) || g.value(cast.out[0]).dtype != DType::f32) continue;
    narrow[static_cast<size_t>(cast.out[0].index)] = cast.in[0];
  }
  // Copies the graph with the storage types that were chosen.
  Copier copy(g);
  for (int32_t n = 0; n < g.n_nodes(); ++n) {
    const Node& node = g.node(NodeId{n});
    if (gone[static_cast<size_t>(n)]) {
      copy.alias(node.out[0], copy(node.in[0]));
      continue;
    }
    std::vector<std::pair<DType, Dims>> outputs = types_of(g, node.out);
    for (size_t i = 0; i < outputs.size(); ++i) outputs[i].first = stored[static_cast<size_t>(node.out[i].index)];
    const bool arithmetic = !node.op->moves && !node.op->view && node.op->name != "Cast";
    copy.node(NodeId{n}, outputs, arithmetic ? &narrow : nullptr);
  }
  copy.finish();
  return prune(copy.out);
}

}  // namespace amp
