// Runs a case of the operator table through Builder, Autodiff and the naive interpreter.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "tests/ops/op_cases.h"

namespace amp::test {

struct CaseResult {
  std::vector<HostTensor> outputs;
  std::map<size_t, HostTensor> grads;  // gradients of sum_k <dy_k, output_k>; keys: inputs of Role::value
};

class CaseRun {
 public:
  // type: type of floating inputs; statistics stay fp32 next to 16-bit inputs. gradient: also builds the backward pass.
  // surrogate: runs instead of the operator.
  CaseRun(const std::string& op, const OpCase& c, DType type, bool gradient, Surrogate surrogate = nullptr);

  // Runs the case. in and dy (by position in OpCase::seeded) are converted to the graph's types.
  CaseResult operator()(const std::vector<HostTensor>& in, const std::vector<HostTensor>& dy = {}) const;
  // Returns upstream gradients for the seeded outputs, in fp64 but exactly representable in the outputs' types.
  std::vector<HostTensor> random_upstream(uint64_t seed) const;
  int32_t nodes() const { return graph_.n_nodes(); }
  int32_t forward_nodes() const { return forward_nodes_; }  // number of nodes before the backward pass
  const Graph& graph() const { return graph_; }
  // Runs another graph with the same inputs, parameters and outputs.
  CaseResult run(const Graph& g, const std::vector<HostTensor>& in, const std::vector<HostTensor>& dy) const;

 private:
  const OpCase& case_;
  Graph graph_;
  size_t n_outputs_ = 0;
  int32_t forward_nodes_ = 0;
  std::vector<ValueId> outputs_;
};

// Returns the inputs of a case: floating ones in fp64, others in int64, uint8 or bool.
std::vector<HostTensor> draw_inputs(const OpCase& c, uint64_t seed);
// Rounds floating elements to `to` and converts them back to fp64.
std::vector<HostTensor> rounded(const std::vector<HostTensor>& in, DType to);

std::string describe(const std::string& op, const OpCase& c);  // "Concat f[2,3] f[1,3] axis=0;"
double largest(const std::vector<double>& v);                  // largest magnitude; 0 when empty

}  // namespace amp::test
