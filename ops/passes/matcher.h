// Base class of matchers of unfused subgraphs. A matcher reads the original graph; each match records the nodes
// that would be replaced.
#pragma once

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "graph/graph.h"
#include "graph/op.h"

namespace amp {

class Matcher {
 public:
  Matcher(const Graph& g, const std::vector<DType>& compute)
      : g_(g), compute_(compute), uses_(static_cast<size_t>(g.n_values()), 0) {
    for (int32_t n = 0; n < g.n_nodes(); ++n) {
      for (const ValueId v : g.node(NodeId{n}).in) {
        if (v) ++uses_[static_cast<size_t>(v.index)];
      }
    }
    for (const auto& o : g.outputs) uses_[static_cast<size_t>(o.value.index)] += 2;
  }

  void start(NodeId root) { nodes_ = {root}; }
  const Node* producer(ValueId v, const char* op) const {
    const Value& x = g_.value(v);
    if (x.kind != ValueKind::temp) return nullptr;
    const Node& n = g_.node(x.producer);
    return n.op->name == op ? &n : nullptr;
  }
  // If an `op` node computes v, returns the node and adds it to the match; otherwise returns null.
  const Node* take(ValueId v, const char* op) {
    const Node* n = producer(v, op);
    if (n) nodes_.push_back(g_.value(v).producer);
    return n;
  }
  std::optional<double> scalar(ValueId v) const {
    const Value& x = g_.value(v);
    if (x.kind != ValueKind::constant || x.constant.numel() != 1) return std::nullopt;
    return x.constant.to_doubles()[0];
  }
  bool near(ValueId v, double want) const {
    const auto s = scalar(v);
    return s && std::abs(*s - want) <= 1e-5 * std::abs(want);
  }
  // If n is x op c or c op x with a scalar constant c close to `want`, returns x.
  ValueId with_constant(const Node& n, double want) const {
    if (near(n.in[1], want)) return n.in[0];
    if (near(n.in[0], want)) return n.in[1];
    return {};
  }
  const Dims& dims(ValueId v) const { return g_.value(v).dims; }

  // Returns whether all matched nodes compute in one type. Matched values such as statistics may have other
  // readers: they stay in the graph until prune() drops those without readers.
  bool one_type() const {
    return std::all_of(nodes_.begin(), nodes_.end(), [&](NodeId n) { return type(n) == type(nodes_[0]); });
  }
  // Returns the compute type of a node in the precision plan.
  DType type(NodeId n) const {
    const int s = g_.node(n).origin.source_node;
    return s >= 0 && s < static_cast<int>(compute_.size()) ? compute_[static_cast<size_t>(s)] : DType::f32;
  }
  const std::vector<NodeId>& swallowed() const { return nodes_; }
  int uses(ValueId v) const { return uses_[static_cast<size_t>(v.index)]; }
  // Returns whether v can be a scale or bias: a vector along the last dim of x, with any leading dims of 1.
  bool vector_of(ValueId v, ValueId x) const {
    return !dims(x).empty() && numel(dims(v)) == dims(x).back() && !dims(v).empty() &&
           dims(v).back() == dims(x).back() && dims(v).size() <= dims(x).size();
  }

 protected:
  const Graph& g_;

 private:
  const std::vector<DType>& compute_;
  std::vector<int> uses_;
  std::vector<NodeId> nodes_;
};

}  // namespace amp
