// Returns gradients of a session as named tensors under the parameters' ONNX names.
#pragma once

#include <vector>

#include "base/safetensors.h"
#include "trainer/compile/session.h"

namespace amp {

HostTensor transposed(const HostTensor& t);  // swaps the last two dims of a tensor whose other dims are 1; fp32 or fp64
// Returns the gradients in fp32, divided by `scale`. The gradient of a parameter that is stored transposed is
// transposed back.
std::vector<NamedTensor> gradient_tensors(const Session& session, double scale = 1);
// Returns the slot (index in Session::table()) of the first parameter whose gradient is not finite, or -1.
int first_bad_slot(const Session& session);

}  // namespace amp
