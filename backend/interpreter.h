// A simple interpreter. It runs a graph node by node, without passes or a memory plan, and stores each value in a
// separate buffer. It folds constants while a graph is bound and is the reference in tests of Programs.
#pragma once

#include <map>
#include <string>

#include "graph/builder.h"

namespace amp {

// Runs one node's CPU kernel on host tensors.
std::vector<HostTensor> evaluate_node(const OpDef&, const std::vector<HostTensor>& inputs, const Attrs&,
                                      const std::vector<std::pair<DType, Dims>>& outputs);
Evaluator cpu_evaluator();

struct Interpreted {
  std::map<std::string, HostTensor> outputs;
  std::map<int, HostTensor> param_grads;  // slot -> gradient
};
// Runs a graph. params: indexed by slot, in the graph's floating-point type.
Interpreted interpret(const Graph&, const std::map<std::string, HostTensor>& inputs,
                      const std::vector<HostTensor>& params);

}  // namespace amp
