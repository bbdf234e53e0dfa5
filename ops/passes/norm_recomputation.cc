#include "ops/passes/norm_recomputation.h"

#include <algorithm>

#include "graph/copier.h"
#include "graph/passes.h"

namespace amp {

namespace {

bool is_add_norm(const Node& n) { return n.op->name == "AddNorm"; }

// Returns for each value whether only AddNorm nodes read it, as a residual that is not recomputed yet.
std::vector<bool> residual_only(const Graph& g) {
  std::vector<bool> out(static_cast<size_t>(g.n_values()), true);
  for (int32_t n = 0; n < g.n_nodes(); ++n) {
    const Node& node = g.node(NodeId{n});
    for (size_t i = 0; i < node.in.size(); ++i) {
      const ValueId v = node.in[i];
      if (v && !(is_add_norm(node) && i == 1 && node.in.size() <= 6)) out[static_cast<size_t>(v.index)] = false;
    }
  }
  for (const auto& o : g.outputs) out[static_cast<size_t>(o.value.index)] = false;
  for (const auto& p : g.param_grads) out[static_cast<size_t>(p.value.index)] = false;
  return out;
}

}  // namespace

Graph recompute_norms(const Graph& g) {
  const std::vector<bool> residual = residual_only(g);
  const auto unstored = [&](const Node& n) {
    return is_add_norm(n) && n.attrs.i("y", 1) != 0 && residual[static_cast<size_t>(n.out[0].index)] &&
           g.value(n.out[0]).dtype == DType::f32 && g.value(n.out[1]).dtype == DType::f32;
  };
  Copier out(g);
  for (int32_t i = 0; i < g.n_nodes(); ++i) {
    Node node = g.node(NodeId{i});
    const std::vector<ValueId> was = node.out;
    if (is_add_norm(node) && g.value(node.in[1]).kind == ValueKind::temp) {
      const Node& before = g.node(g.value(node.in[1]).producer);
      if (unstored(before) && before.out[0] == node.in[1]) {
        node.in.resize(6);
        node.in[1] = before.out[1];
        node.in.insert(node.in.end(), {before.out[2], before.out[3], before.in[2], before.in[3]});
      }
    }
    std::vector<ValueId> made = was;
    if (unstored(g.node(NodeId{i}))) {
      node.attrs.set("y", int64_t{0});
      made.erase(made.begin());
    }
    out.add(node, node.in, made, types_of(g, made));
  }
  out.finish();
  return std::move(out.out);
}

}  // namespace amp
