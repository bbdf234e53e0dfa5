// Differentiates a graph with a scalar output "loss" (tests/graph/core_text.h) and runs it like a training step.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "backend/kernel.h"

namespace amp::test {

// Adds the gradient of output 0 times the input "seed" for every parameter.
Graph with_gradients(Graph g);

// Returns the loss, then the elements of all gradients in the order of the slots. Ignores inputs that the graph does
// not have. The seed is 1.
std::vector<double> loss_and_gradients(const Graph& g, const std::map<std::string, HostTensor>& inputs,
                                       const std::vector<HostTensor>& params, const RunState& state);

// Returns the largest difference, relative to the largest element of want.
double largest_difference(const std::vector<double>& got, const std::vector<double>& want);

}  // namespace amp::test
