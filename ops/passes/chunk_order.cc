// order_chunks() (label_rows.h). A chunk consists of the nodes that depend on its Slice of the input kRowInput. Nodes
// that depend on no chunk come first. The other nodes follow, ordered by the last chunk on which they depend. Autodiff
// goes through the chunks backwards and adds the gradients of the last chunk first, so the chunks are placed in reverse
// order: the last chunk first. Then only one partial sum of a weight's gradient is stored at a time.
#include <algorithm>
#include <utility>
#include <vector>

#include "graph/copier.h"
#include "graph/op.h"
#include "ops/passes/label_rows.h"

namespace amp {

Graph order_chunks(const Graph& g) {
  const ValueId rows = g.input(kRowInput);
  if (!rows) return g;
  std::vector<int64_t> turn(static_cast<size_t>(g.n_values()), 0);  // 0: the value does not depend on a chunk
  std::vector<std::pair<int64_t, int32_t>> order;
  for (int32_t i = 0; i < g.n_nodes(); ++i) {
    const Node& n = g.node(NodeId{i});
    int64_t at = 0;
    for (const ValueId v : n.in) at = std::max(at, v ? turn[static_cast<size_t>(v.index)] : 0);
    if (n.op->name == "Slice" && n.in[0] == rows) at = g.value(rows).dims[0] - n.attrs.ints("starts").at(0);
    for (const ValueId v : n.out) turn[static_cast<size_t>(v.index)] = at;
    order.emplace_back(at, i);
  }
  if (std::is_sorted(order.begin(), order.end())) return g;
  std::sort(order.begin(), order.end());
  Copier copy(g);
  for (const auto& [at, i] : order) copy.node(NodeId{i}, types_of(g, g.node(NodeId{i}).out));
  copy.finish();
  return std::move(copy.out);
}

}  // namespace amp
