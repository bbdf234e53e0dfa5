// Reverse-mode differentiation of a bound graph. Gradient rules use only GradBuilder, which sums over broadcast dims,
// casts to the input's type and accumulates, so that rules need not do this.
#pragma once

#include <vector>

#include "base/error.h"
#include "graph/builder.h"

namespace amp {

class Autodiff;

class GradBuilder {
 public:
  GradBuilder(Autodiff& ad, Builder& b, NodeId node) : b(b), ad_(ad), node_(node) {}

  Builder& b;
  const Node& node() const { return b.graph().node(node_); }
  const Attrs& attrs() const { return node().attrs; }
  size_t n_in() const { return node().in.size(); }
  ValueId in(size_t i) const { return node().in.at(i); }
  ValueId out(size_t i) const { return node().out.at(i); }
  const Dims& dims(ValueId v) const { return b.dims(v); }
  bool needs(size_t i) const;   // whether the gradient of input i is needed
  bool has_dy(size_t i) const;  // whether a gradient has arrived at output i
  ValueId dy(size_t i);         // the gradient of output i, with dims and type of out(i); zeros if none arrived
  ValueId op(std::string_view name, std::vector<ValueId> in, Attrs attrs = {}) {
    return b.op(name, std::move(in), std::move(attrs));
  }
  // Adds v to the gradient of input i: sums v over broadcast dims, casts it to in(i)'s type, and accumulates it.
  void add_grad(size_t i, ValueId v);

 private:
  Autodiff& ad_;
  NodeId node_;
};

class Autodiff {
 public:
  // wrt: the values whose gradients are needed. The nodes that do not depend on these values are not differentiated.
  Autodiff(Builder& b, const std::vector<ValueId>& wrt);

  void seed(ValueId y, ValueId dy) { contribute(y, dy); }  // seeds dL/dy, which has the dims of y
  // Differentiates all nodes that existed at construction, in reverse order. If `faults` is given, it receives the
  // error of each node that cannot be differentiated, and no gradient passes that node. Otherwise the first error is
  // thrown.
  void run(std::vector<std::pair<NodeId, Error>>* faults = nullptr);
  ValueId grad(ValueId v);  // the gradient of v; invalid if no gradient reaches v
  bool wanted(ValueId v) const {
    return v.index < static_cast<int32_t>(wanted_.size()) && wanted_[static_cast<size_t>(v.index)];
  }
  bool reached(ValueId v) const {
    return v.index < static_cast<int32_t>(parts_.size()) && !parts_[static_cast<size_t>(v.index)].empty();
  }
  void contribute(ValueId v, ValueId part);

 private:
  Builder& b_;
  int32_t n_nodes_;
  std::vector<bool> wanted_;                 // per value: whether it depends on one of wrt
  std::vector<std::vector<ValueId>> parts_;  // per value: contributions in order of arrival
};

// Returns the nodes on paths from wrt to the targets whose operator lacks the gradient rule that such a path needs.
std::vector<NodeId> gradient_blockers(const Graph&, const std::vector<ValueId>& wrt,
                                      const std::vector<ValueId>& targets);

}  // namespace amp
