// Names of the inputs and outputs of a compiled graph (graph_compiler.h).
#pragma once

#include <cstddef>
#include <string>

#include "base/cat.h"

namespace amp {

// Return the name of the sum of a loss term, and of the input that seeds its backward pass.
inline std::string loss_output(size_t term) { return cat("loss.", term); }
inline std::string seed_input(size_t term) { return cat("seed.", term); }
// For hessian graphs: returns the name of the input for the elements of v that belong to a parameter.
inline std::string direction_input(int slot) { return cat("direction.", slot); }
// For cached_train graphs: the input for the gradient of a loss term with respect to one of its LossSpec::values().
inline std::string cached_input(size_t term, size_t output) { return cat("cached.", term, ".", output); }
// For losses of a gradient (gradient_penalty.h): returns the name of the output that holds the value with
// respect to which a term is differentiated.
inline std::string penalized_output(size_t term) { return cat("penalized.", term); }

}  // namespace amp
