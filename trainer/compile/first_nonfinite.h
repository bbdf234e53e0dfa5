// Finds the first non-finite value of a step, for the error message after too many skipped steps.
#pragma once

#include <string>
#include <vector>

#include "trainer/compile/session.h"

namespace amp {

// Runs the accumulation step's micro-batches again and checks every value. Follows non-finite values back from the loss
// (if that is finite, from the parameters' gradients) to their cause. Returns for example "the first non-finite
// activation is the output of node '/ffn/wo' (MatMul, #6, opset 17), stored as float16"; empty when everything is
// finite. Infinities that a mask adds and a softmax removes again are not followed. Overwrites the gradient arena and
// the staged statistics.
std::string first_nonfinite_value(Session& session, const Losses& losses, const std::vector<Tensors>& batches,
                                  const std::vector<double>& seeds);

}  // namespace amp
