#include "graph/lists.h"

namespace amp {
namespace {

// Returns the operator of nodes that represent sequences and optionals. It is not in the operator table, because it has
// no kernel and is not found by name.
const OpDef& list_op() {
  static const OpDef def = [] {
    OpDef d;
    d.name = "List";
    d.infer = [](InferCtx& c) { c.out(DType::boolean, {}); };
    d.not_differentiable = true;
    return d;
  }();
  return def;
}

const Node* list_node(const Graph& g, ValueId v) {
  const NodeId p = g.value(v).producer;
  return p && g.node(p).op == &list_op() ? &g.node(p) : nullptr;
}

ValueId add(Builder& b, std::vector<ValueId> items, Attrs attrs) {
  Graph& g = b.mutable_graph();
  return g.node(g.add_node(list_op(), std::move(items), std::move(attrs), b.origin)).out[0];
}

}  // namespace

ValueId make_list(Builder& b, std::vector<ValueId> items) { return add(b, std::move(items), {}); }
ValueId make_absent(Builder& b) { return add(b, {}, {{"absent", int64_t{1}}}); }

const std::vector<ValueId>* list_of(const Graph& g, ValueId v) {
  const Node* n = list_node(g, v);
  return n ? &n->in : nullptr;
}
bool is_absent(const Graph& g, ValueId v) {
  const Node* n = list_node(g, v);
  return n && n->attrs.has("absent");
}

}  // namespace amp
