// A graph with a scalar output "loss" (tests/graph/core_text.h), differentiated and run as a training step runs it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "backend/kernel.h"

namespace amp::test {

// With the gradient of output 0, times the input "seed", for every parameter.
Graph with_gradients(Graph g);

// The loss, then every gradient's elements in the order of the slots. Inputs that the graph lacks are left out; seed is
// 1.
std::vector<double> loss_and_gradients(const Graph& g, const std::map<std::string, HostTensor>& inputs,
                                       const std::vector<HostTensor>& params, const RunState& state);

// Largest difference, over the largest element of want.
double largest_difference(const std::vector<double>& got, const std::vector<double>& want);

}  // namespace amp::test
