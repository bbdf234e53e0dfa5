// Tests of an operator through its ONNX node: bind it, differentiate it with a given upstream gradient, run it naively.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "graph/source.h"

namespace amp {

struct OneNode {
  std::string op;
  int64_t version = 17;
  Attrs attrs;
  std::vector<HostTensor> inputs;  // an empty one is left out
  size_t n_outputs = 1;
  bool batchnorm_train = false;
  std::vector<size_t> fixed = {};  // floating inputs that are constants of the model: scales
};

struct NodeRun {
  std::vector<HostTensor> outputs;
  std::map<size_t, HostTensor> grads;  // by input; of sum(dy * output 0)
};

// float_type: the working type. storage: floating inputs and outputs of every core node are stored so (f16, bf16), or
// as float_type itself. dy may be empty: no gradients.
NodeRun run_node(const OneNode& n, const HostTensor& dy, const std::vector<size_t>& wrt, DType float_type,
                 DType storage);
inline NodeRun run_node(const OneNode& n, const HostTensor& dy, const std::vector<size_t>& wrt, DType float_type) {
  return run_node(n, dy, wrt, float_type, float_type);
}

// Standard normal numbers, the same for a seed everywhere.
HostTensor random_tensor(Dims dims, uint64_t seed);

// Largest |a - b| / (1 + |b|); infinity when the dims differ or a NaN meets a number.
double distance(const HostTensor& a, const HostTensor& b);
bool same_bits(const HostTensor& a, const HostTensor& b);

}  // namespace amp
