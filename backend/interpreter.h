// The naive way to run a graph: node by node, every value in a buffer of its own, no passes, no plan. It folds
// constants while a graph is bound and is the oracle against which Programs are tested.
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
  std::map<int, HostTensor> param_grads;  // by slot
};
// params: by slot, of the graph's floating type.
Interpreted interpret(const Graph&, const std::map<std::string, HostTensor>& inputs,
                      const std::vector<HostTensor>& params);

}  // namespace amp
