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
  int in(int n, size_t i) const;  // returns the index of node n's input value i; -1 if absent
  int out(int n) const { return in_range(n) && !node(n).outputs.empty() ? node(n).outputs[0] : -1; }
  const std::vector<int>& users(int v) const;  // returns the indices of the nodes that read v, each once
  // Returns the only node that reads v, if its operator is `op` and v is not a graph output; else -1.
  int only_user(int v, std::string_view op) const;
  // Returns the element of a constant or parameter with one element. Identity nodes before it are skipped.
  std::optional<double> scalar(int v) const;
  bool is_scalar(int v, double want) const;  // compares within 0.1 %, because files contain rounded constants
  // True for a parameter or constant. Identity, Reshape, Cast, Unsqueeze, Squeeze and Transpose before v are skipped.
  bool is_weight(int v) const;
  int64_t weight_rank(int v) const;  // rank of the weight's data; -1 if unknown
  // Returns the operand of the two-operand node n that is not v; -1 if v is not an operand.
  int other(int n, int v) const;
  // If one operand of n, the first or the second, is the given scalar, returns the other operand; else returns -1.
  int beside_scalar(int n, double want) const;
  // True if all values computed in `nodes`, except `result`, are read only by nodes in `nodes`.
  bool closed(const std::vector<int>& nodes, int result) const;
  // Returns the axes of a reduction, from its attribute or input; empty if they are all axes or unknown.
  std::vector<int64_t> axes(int n) const;
  int64_t rank(int v) const;  // returns -1 if the rank is unknown

  const SourceGraph& graph() const { return g_; }

 private:
  bool in_range(int n) const { return n >= 0 && static_cast<size_t>(n) < g_.nodes.size(); }
  const SourceGraph& g_;
  std::vector<std::vector<int>> users_;
  std::vector<char> is_output_;
};

}  // namespace amp
