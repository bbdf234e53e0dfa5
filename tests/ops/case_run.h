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
  std::map<size_t, HostTensor> grads;  // by input of Role::value, of sum_k <dy_k, output_k>
};

class CaseRun {
 public:
  // type: of the floating inputs (fp32 statistics beside 16-bit ones). gradient: builds the backward pass too.
  // surrogate: runs in the operator's place.
  CaseRun(const std::string& op, const OpCase& c, DType type, bool gradient, Surrogate surrogate = nullptr);

  // in and dy (by position in OpCase::seeded) are converted to the graph's types.
  CaseResult operator()(const std::vector<HostTensor>& in, const std::vector<HostTensor>& dy = {}) const;
  // Upstream gradients for the seeded outputs, as fp64 numbers that the outputs' types hold.
  std::vector<HostTensor> random_upstream(uint64_t seed) const;
  int32_t nodes() const { return graph_.n_nodes(); }
  int32_t forward_nodes() const { return forward_nodes_; }  // those before the backward pass
  const Graph& graph() const { return graph_; }
  // The same run on another graph of the same inputs, parameters and outputs.
  CaseResult run(const Graph& g, const std::vector<HostTensor>& in, const std::vector<HostTensor>& dy) const;

 private:
  const OpCase& case_;
  Graph graph_;
  size_t n_outputs_ = 0;
  int32_t forward_nodes_ = 0;
  std::vector<ValueId> outputs_;
};

// The inputs of a case in fp64 (int64, uint8, bool).
std::vector<HostTensor> draw_inputs(const OpCase& c, uint64_t seed);
// The same with floating elements rounded to `to` (and back to fp64).
std::vector<HostTensor> rounded(const std::vector<HostTensor>& in, DType to);

std::string describe(const std::string& op, const OpCase& c);  // "Concat f[2,3] f[1,3] axis=0;"
double largest(const std::vector<double>& v);                  // largest magnitude; 0 when empty

}  // namespace amp::test
