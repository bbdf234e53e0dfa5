// decompose_operators() replaces nodes level by level, until no node has a decomposition. The results must have the
// same types and shapes as the values that they replace, also where a precision plan has changed the storage types.
#include "graph/decompositions.h"

#include <optional>

#include "graph/autodiff.h"
#include "graph/copier.h"
#include "graph/op.h"
#include "graph/passes.h"

namespace amp {

namespace {

// Returns the inputs, with 16-bit values cast to fp32. Kernels compute in fp32, so their decompositions must do the
// same.
std::vector<ValueId> widened(Builder& b, std::vector<ValueId> in) {
  for (ValueId& v : in) {
    if (v && is_low(b.dtype(v))) v = b.cast(v, DType::f32);
  }
  return in;
}

// Replaces each node that has a decomposition by its decomposition. Returns the new graph; nullopt if no node has one.
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
    if (node.op->decomposition) made = node.op->decomposition(b, widened(b, in), node.attrs);
    any |= !made.empty();
    const int32_t before = out.n_nodes();
    const bool kept = made.empty();
    if (kept) made = b.ops(node.op->name, in, node.attrs);
    const bool fresh = kept && out.n_nodes() > before;
    check(made.size() == node.out.size(), cat("the definition of ", node.op->name, " has ", made.size(), " outputs"));
    for (size_t i = 0; i < made.size(); ++i) {
      if (!made[i]) continue;  // the decomposition has left out an output that has no readers
      const Value& want = g.value(node.out[i]);
      // A pass may have changed the storage type that shape inference gives.
      if (out.value(made[i]).dtype != want.dtype && is_float(want.dtype)) {
        if (fresh && out.value(made[i]).kind == ValueKind::temp)
          out.set_dtype(made[i], want.dtype);
        else
          made[i] = b.cast(made[i], want.dtype);
      }
      const Value& have = out.value(made[i]);
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

Graph decompose_operators(Graph graph, const Evaluator& evaluator) {
  while (std::optional<Graph> next = expand_once(graph, evaluator)) graph = std::move(*next);
  return graph;
}

void require_second_gradients(const Graph& graph, const std::vector<ValueId>& wrt, const std::vector<ValueId>& of,
                              const SourceGraph& source) {
  for (const NodeId n : gradient_blockers(graph, wrt, of)) {
    const Node& node = graph.node(n);
    const int at = node.origin.source_node;
    fail(Exit::unsupported, "E_NO_SECOND_GRADIENT",
         cat("operator ", node.op->name, " has no gradient, which a second derivative needs",
             at < 0 ? "" : ": " + source.describe_node(at)),
         "docs/operators.md lists what has a second gradient; `freeze` takes the parameters before it out");
  }
}

}  // namespace amp
