// Losses of a gradient (LossRule::of_gradient). The gradient of an output with respect to a value of the model becomes
// part of the graph, so that the parameters' gradients pass through it (create_graph=True of torch.autograd.grad).
#pragma once

#include "graph/builder.h"
#include "trainer/losses/losses.h"

namespace amp {

bool penalizes_gradients(const Losses& losses);
std::vector<std::string> penalized_values(const Losses& losses);  // LossSpec::input of each loss of a gradient

// Replaces the output of each term that is a loss of a gradient: before the call it is the value to differentiate,
// afterwards it is the sum of the loss. Decomposes operators whose gradient is a fused kernel. Throws E_LOSS_IO if the
// output does not depend on the value of penalized_output() (graph_names.h).
Graph penalize_gradients(Graph graph, const Losses& losses, const Evaluator& evaluator);

}  // namespace amp
