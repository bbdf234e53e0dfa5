#include "graph/definitions.h"

#include <optional>

#include "graph/autodiff.h"
#include "graph/copier.h"
#include "graph/op.h"
#include "graph/passes.h"

namespace amp {

namespace {

// Nothing when no node has a definition.
std::optional<Graph> expand_once(const Graph& g, const Evaluator& evaluator) {
  Graph out;
  Builder b(out, evaluator);
  ValueMap map(g, out, &b);
  bool any = false;
  for (int32_t n = 0; n < g.n_nodes(); ++n) {
    const Node& node = g.node(NodeId{n});
    b.origin = node.origin;
    const std::vector<ValueId> in = map(node.in);
    std::vector<ValueId> made;
    if (node.op->definition) made = node.op->definition(b, in, node.attrs);
    any |= !made.empty();
    if (made.empty()) made = b.ops(node.op->name, in, node.attrs);
    check(made.size() == node.out.size(), cat("the definition of ", node.op->name, " has ", made.size(), " outputs"));
    for (size_t i = 0; i < made.size(); ++i) {
      if (!made[i]) continue;  // nobody reads it
      const Value &have = out.value(made[i]), &want = g.value(node.out[i]);
      check(have.dims == want.dims && have.dtype == want.dtype,
            cat("the definition of ", node.op->name, " gives ", name_of(have.dtype), to_string(have.dims), " for ",
                name_of(want.dtype), to_string(want.dims)));
    }
    map.set(node.out, made);
  }
  if (!any) return std::nullopt;
  map.finish();
  return prune(out);
}

}  // namespace

Graph expand_definitions(Graph graph, const Evaluator& evaluator) {
  while (std::optional<Graph> next = expand_once(graph, evaluator)) graph = std::move(*next);
  return graph;
}

void require_second_gradients(const Graph& graph, const std::vector<ValueId>& wrt, const SourceGraph& source) {
  std::vector<ValueId> gradients;
  for (const auto& p : graph.param_grads) gradients.push_back(p.value);
  for (const NodeId n : gradient_blockers(graph, wrt, gradients)) {
    const Node& node = graph.node(n);
    const int at = node.origin.source_node;
    fail(Exit::unsupported, "E_NO_SECOND_GRADIENT",
         cat("operator ", node.op->name, " has no gradient, which a second derivative needs",
             at < 0 ? "" : ": " + source.describe_node(at)),
         "docs/operators.md lists what has a second gradient; --freeze takes the parameters before it out");
  }
}

}  // namespace amp
