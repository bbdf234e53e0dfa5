#include "ops/passes/repeat_nodes.h"

#include <algorithm>

#include "graph/copier.h"
#include "graph/op.h"
#include "graph/passes.h"

namespace amp {

namespace {

// Copies a graph. Each node n with repeats(n) is copied for each of its readers but the first, so that none is shared.
template <class Repeats>
Graph repeat(const Graph& g, const Repeats& repeats) {
  std::vector<bool> read(static_cast<size_t>(g.n_values()), false);
  Copier out(g);
  for (int32_t n = 0; n < g.n_nodes(); ++n) {
    for (const ValueId v : g.node(NodeId{n}).in) {
      if (!v || g.value(v).kind != ValueKind::temp || !repeats(g.node(g.value(v).producer))) continue;
      if (read[static_cast<size_t>(v.index)]) out.node(g.value(v).producer, types_of(g, {v}));
      read[static_cast<size_t>(v.index)] = true;
    }
    out.node(NodeId{n}, types_of(g, g.node(NodeId{n}).out));
  }
  out.finish();
  return std::move(out.out);
}

}  // namespace

Graph repeat_joins(const Graph& g) {
  return repeat(g, [&](const Node& node) {
    return node.op->name == "Concat" && std::all_of(node.in.begin(), node.in.end(), [&](ValueId i) {
             return g.value(skip_views(g, i)).kind == ValueKind::param;
           });
  });
}

Graph repeat_dequantization(Graph g) {
  for (int32_t n = 0; n < g.n_nodes(); ++n) {
    if (!g.node(NodeId{n}).op->deferred) continue;
    return repeat(prune(g), [](const Node& node) { return node.op->deferred; });
  }
  return g;
}

}  // namespace amp
