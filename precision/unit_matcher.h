// Queries on a SourceGraph for the patterns of decomposed operators (units.h).
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "graph/source.h"

namespace amp {

class UnitMatcher {
 public:
  explicit UnitMatcher(const SourceGraph& g);

  const SourceNode& node(int n) const { return g_.nodes[static_cast<size_t>(n)]; }
  // Returns the node that computes value v, if it is an ai.onnx operator of that name; else -1.
  int made_by(int v, std::string_view op) const;
  int in(int n, size_t i) const;  // index of input value i of node n; -1 if absent
  int out(int n) const { return in_range(n) && !node(n).outputs.empty() ? node(n).outputs[0] : -1; }
  const std::vector<int>& users(int v) const;  // indices of the nodes that read v, each once
  // Returns the only node that reads v; -1 if there are several, it is another operator, or v is a graph output
  int only_user(int v, std::string_view op) const;
  // Returns the only element of a one-element constant or parameter. Identity is skipped.
  std::optional<double> scalar(int v) const;
  bool is_scalar(int v, double want) const;  // within 0.1 %, because files contain rounded constants
  // parameter or constant; Identity, Reshape, Cast, Unsqueeze, Squeeze and Transpose are skipped
  bool is_weight(int v) const;
  int64_t weight_rank(int v) const;  // rank of its data; -1 if unknown
  // Returns the operand of the two-operand node n that is not v; -1 if v is not an operand.
  int other(int n, int v) const;
  // Returns the other operand of n if one of its operands, in either order, is the given scalar; else -1.
  int beside_scalar(int n, double want) const;
  // True if all values computed in `nodes`, except `result`, are read only by `nodes`.
  bool closed(const std::vector<int>& nodes, int result) const;
  // Returns the axes of a reduction, from attribute or input; empty: all axes, or unknown.
  std::vector<int64_t> axes(int n) const;
  int64_t rank(int v) const;  // -1 if unknown

  const SourceGraph& graph() const { return g_; }

 private:
  bool in_range(int n) const { return n >= 0 && static_cast<size_t>(n) < g_.nodes.size(); }
  const SourceGraph& g_;
  std::vector<std::vector<int>> users_;
  std::vector<char> is_output_;
};

}  // namespace amp
