// Reverse-mode differentiation on a bound graph. Rules speak only through GradBuilder, which undoes broadcasting, casts
// to the input's type and accumulates, so that no rule can forget to.
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
  bool needs(size_t i) const;   // does anything upstream want the gradient of input i?
  bool has_dy(size_t i) const;  // did any gradient arrive at output i?
  ValueId dy(size_t i);         // the gradient of output i: dims and type of out(i); zeros when none arrived
  ValueId op(std::string_view name, std::vector<ValueId> in, Attrs attrs = {}) {
    return b.op(name, std::move(in), std::move(attrs));
  }
  // Contributes v to the gradient of input i: summed over broadcast dimensions, cast to in(i)'s type, accumulated.
  void add_grad(size_t i, ValueId v);

 private:
  Autodiff& ad_;
  NodeId node_;
};

class Autodiff {
 public:
  // wrt: the values whose gradients are wanted. Nothing upstream of them is differentiated.
  Autodiff(Builder& b, const std::vector<ValueId>& wrt);

  void seed(ValueId y, ValueId dy) { contribute(y, dy); }  // dL/dy, dims of y
  // All nodes that existed at construction, in reverse. faults: takes the errors of nodes, past which no gradient goes
  // then;
  // without it the first one is thrown.
  void run(std::vector<std::pair<NodeId, Error>>* faults = nullptr);
  ValueId grad(ValueId v);  // invalid when no gradient reaches v
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
  std::vector<bool> wanted_;                 // by value: lies on a path from wrt
  std::vector<std::vector<ValueId>> parts_;  // by value: contributions, in the order in which they arrived
};

// Nodes on a path from wrt to the targets whose operator has no gradient rule though one would be needed.
std::vector<NodeId> gradient_blockers(const Graph&, const std::vector<ValueId>& wrt,
                                      const std::vector<ValueId>& targets);

}  // namespace amp
