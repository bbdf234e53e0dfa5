// Losses of a gradient (LossRule::of_gradient): the gradient of an output with respect to a value of the model is part
// of the graph, so that the parameters' gradients go through it (torch's create_graph).
#pragma once

#include "graph/builder.h"
#include "trainer/losses/losses.h"

namespace amp {

bool penalizes_gradients(const Losses& losses);
std::vector<std::string> penalized_values(const Losses& losses);  // LossSpec::input of each that does

// The name under which the composed graph keeps the value that a term's gradient is taken with respect to.
std::string penalized_output(size_t term);

// The term's output is what is differentiated before, and the loss's sum after it. Operators whose gradient is one
// kernel are spelled out. E_LOSS_IO where the output does not depend on the value.
Graph penalize_gradients(Graph graph, const Losses& losses, const Evaluator& evaluator);

}  // namespace amp
