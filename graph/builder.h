// Builder adds nodes to a Graph. op() drops no-ops, folds constants, and returns the existing value if an equal pure
// node was added before (common subexpression elimination).
#pragma once

#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "graph/graph.h"
#include "graph/op.h"

namespace amp {

// Evaluates one node on constant inputs. The backend provides it, so that graph/ does not depend on kernels.
using Evaluator = std::function<std::vector<HostTensor>(const OpDef&, const std::vector<HostTensor>&, const Attrs&,
                                                        const std::vector<std::pair<DType, Dims>>& outputs)>;

class Builder {
 public:
  Builder(Graph& graph, Evaluator evaluator) : graph_(graph), evaluate_(std::move(evaluator)) {}

  Origin origin;  // assigned to every node that op() and ops() add

  ValueId op(std::string_view name, std::vector<ValueId> in, Attrs attrs = {});  // returns output 0
  // The same function for inputs in braces.
  ValueId op(std::string_view name, std::initializer_list<ValueId> in, Attrs attrs = {});
  std::vector<ValueId> ops(std::string_view name, std::vector<ValueId> in, Attrs attrs = {});  // returns all outputs
  ValueId constant(HostTensor t);     // returns the existing value for an equal scalar or small vector
  ValueId scalar(double v, DType t);  // returns a constant of rank 0

  const Graph& graph() const { return graph_; }
  Graph& mutable_graph() { return graph_; }
  const Value& value(ValueId v) const { return graph_.value(v); }
  const Dims& dims(ValueId v) const { return graph_.value(v).dims; }
  DType dtype(ValueId v) const { return graph_.value(v).dtype; }
  int64_t rank(ValueId v) const { return static_cast<int64_t>(dims(v).size()); }
  // Returns the content of a constant, or null if v is not a constant.
  const HostTensor* constant_of(ValueId v) const;
  // Returns the content of a constant, even if a node that is not folded computes the constant (OpDef::deferred).
  // Returns an empty tensor for other values.
  HostTensor content_of(ValueId v) const;
  // True if v is a constant whose elements all equal x.
  bool is_constant(ValueId v, double x) const;

  // Shorthands for common operators.
  ValueId reshape(ValueId x, Dims dims);
  ValueId transpose(ValueId x, std::vector<int64_t> perm);
  ValueId cast(ValueId x, DType to);
  ValueId expand(ValueId x, Dims dims);
  ValueId reduce_sum(ValueId x, std::vector<int64_t> axes, bool keepdims);

 private:
  Graph& graph_;
  Evaluator evaluate_;
  std::unordered_map<std::string, NodeId> seen_;
  std::unordered_map<std::string, ValueId> constants_;
};

}  // namespace amp
