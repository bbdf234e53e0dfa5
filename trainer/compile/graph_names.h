// Names of the inputs and outputs of a compiled graph (graph_compiler.h).
#pragma once

#include <cstddef>
#include <string>

#include "base/cat.h"

namespace amp {

// The sum of a loss term, and the input that seeds its backward pass.
inline std::string loss_output(size_t term) { return cat("loss.", term); }
inline std::string seed_input(size_t term) { return cat("seed.", term); }
// hessian graphs: the input for the elements of v that belong to a parameter.
inline std::string direction_input(int slot) { return cat("direction.", slot); }
// cached_train graphs: the gradient of a loss term with respect to an output, one of its LossSpec::values().
inline std::string cached_input(size_t term, size_t output) { return cat("cached.", term, ".", output); }
// Losses of a gradient (gradient_penalty.h): the output that holds the value with respect to which a term is
// differentiated.
inline std::string penalized_output(size_t term) { return cat("penalized.", term); }

}  // namespace amp
