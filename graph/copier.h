// Helpers for passes that copy a graph and change some of its nodes.
#pragma once

#include <utility>
#include <vector>

#include "base/error.h"
#include "graph/builder.h"

namespace amp {

// Maps values of the old graph to values of the new one. Inputs, parameters and constants are copied on first use.
class ValueMap {
 public:
  // If a builder is given, equal constants are shared.
  ValueMap(const Graph& from, Graph& to, Builder* builder = nullptr)
      : g_(from), out_(to), builder_(builder), map_(static_cast<size_t>(from.n_values())) {}

  ValueId operator()(ValueId v) {
    if (!v) return {};
    ValueId& to = map_[static_cast<size_t>(v.index)];
    if (to) return to;
    const Value& x = g_.value(v);
    switch (x.kind) {
      case ValueKind::input:
        to = out_.add_input(x.name, x.dtype, x.dims);
        break;
      case ValueKind::param:
        to = out_.add_param(x.slot, x.name, x.dtype, x.dims);
        break;
      case ValueKind::constant:
        to = builder_ ? builder_->constant(x.constant) : out_.add_constant(x.constant);
        break;
      case ValueKind::temp:
        bug("graph copy: a value is used before its node");
    }
    return to;
  }
  std::vector<ValueId> operator()(const std::vector<ValueId>& all) {
    std::vector<ValueId> out;
    for (const ValueId v : all) out.push_back((*this)(v));
    return out;
  }
  void set(ValueId v, ValueId to) { map_[static_cast<size_t>(v.index)] = to; }
  void set(const std::vector<ValueId>& was, const std::vector<ValueId>& made) {
    for (size_t i = 0; i < made.size(); ++i) set(was[i], made[i]);
  }
  // Copies the lists of outputs and parameter gradients to the new graph; call it after the last node.
  void finish() {
    for (const auto& o : g_.outputs) out_.outputs.push_back({o.name, (*this)(o.value)});
    for (const auto& p : g_.param_grads) out_.param_grads.push_back({p.slot, (*this)(p.value)});
  }

 private:
  const Graph& g_;
  Graph& out_;
  Builder* builder_;
  std::vector<ValueId> map_;
};

// Returns the types and shapes of the values.
inline std::vector<std::pair<DType, Dims>> types_of(const Graph& g, const std::vector<ValueId>& values) {
  std::vector<std::pair<DType, Dims>> out;
  for (const ValueId v : values) out.emplace_back(g.value(v).dtype, g.value(v).dims);
  return out;
}

// Copies nodes of a graph, optionally with other output types. To omit a node, first give its outputs an alias.
class Copier {
 public:
  explicit Copier(const Graph& g) : map_(g, out), g_(g) {}

  ValueId operator()(ValueId v) { return map_(v); }
  void alias(ValueId v, ValueId to) { map_.set(v, to); }
  // Adds a node with the operator and attributes of `like`. `in` and `was` are values of the old graph. The node reads
  // the copies of `in`, and its outputs become the copies of `was`.
  void add(const Node& like, const std::vector<ValueId>& in, const std::vector<ValueId>& was,
           const std::vector<std::pair<DType, Dims>>& outputs) {
    map_.set(was, out.node(out.add_copy(like, map_(in), outputs)).out);
  }
  // Copies node n. instead: if given, the node reads (*instead)[v] in place of each value v of the old graph.
  void node(NodeId n, const std::vector<std::pair<DType, Dims>>& outputs,
            const std::vector<ValueId>* instead = nullptr) {
    const Node& node = g_.node(n);
    std::vector<ValueId> in = node.in;
    for (ValueId& v : in) v = v && instead ? (*instead)[static_cast<size_t>(v.index)] : v;
    add(node, in, node.out, outputs);
  }
  void finish() { map_.finish(); }

  Graph out;

 private:
  ValueMap map_;
  const Graph& g_;
};

}  // namespace amp
