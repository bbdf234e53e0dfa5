// Where a step stops being finite: the message that a run ends with after too many skipped steps names it.
#pragma once

#include <string>
#include <vector>

#include "trainer/compile/session.h"

namespace amp {

// Runs the window's micro-batches again, looking at every value, and follows what is not finite from the loss (if that
// is finite, from the parameters' gradients) back to where it arises: "the first non-finite activation is the output of
// node '/ffn/wo' (MatMul, #6, opset 17), stored as float16". Infinities that a mask puts in and a softmax takes out
// again are not followed. Empty when everything is finite. The gradient arena and staged statistics are left in
// disorder.
std::string first_nonfinite_value(Session& session, const Losses& losses, const std::vector<Tensors>& batches,
                                  const std::vector<double>& seeds);

}  // namespace amp
