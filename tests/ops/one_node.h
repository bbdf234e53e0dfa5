// Tests an operator through its ONNX node: binds it, differentiates it with a given upstream gradient, and runs it in
// the naive interpreter.
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
  std::vector<HostTensor> inputs;  // an empty tensor stands for an absent input
  size_t n_outputs = 1;
  bool batchnorm_train = false;
  std::vector<size_t> fixed = {};  // floating inputs that are constants of the model, for example scales
};

struct NodeRun {
  std::vector<HostTensor> outputs;
  std::map<size_t, HostTensor> grads;  // gradients of sum(dy * output 0), by input
};

// float_type: the working type. storage: type in which floating inputs and outputs of every core node are stored (f16,
// bf16, or float_type). dy may be empty: then no gradients are computed.
NodeRun run_node(const OneNode& n, const HostTensor& dy, const std::vector<size_t>& wrt, DType float_type,
                 DType storage);
inline NodeRun run_node(const OneNode& n, const HostTensor& dy, const std::vector<size_t>& wrt, DType float_type) {
  return run_node(n, dy, wrt, float_type, float_type);
}

// Returns standard normal numbers, which are the same for a seed on every platform.
HostTensor random_tensor(Dims dims, uint64_t seed);

// Returns the largest |a - b| / (1 + |b|); infinity if the dims differ or only one of two elements is NaN.
double distance(const HostTensor& a, const HostTensor& b);
bool same_bits(const HostTensor& a, const HostTensor& b);

}  // namespace amp
