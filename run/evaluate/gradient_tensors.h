// Gradients of a session as named tensors under the parameters' ONNX names. A tied copy has its own layout.
#pragma once

#include <vector>

#include "base/safetensors.h"
#include "trainer/compile/session.h"

namespace amp {

HostTensor transposed(const HostTensor& t);  // swaps the last two dims; the dims before are 1; fp32 or fp64
std::vector<NamedTensor> gradient_tensors(const Session& session, double scale = 1);  // fp32, divided by scale
// Returns the slot of the first parameter whose gradient is not finite, or -1.
int first_bad_slot(const Session& session);

}  // namespace amp
