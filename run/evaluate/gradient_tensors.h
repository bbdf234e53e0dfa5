// What a session's gradient arena holds, as files have it: under the parameters' ONNX names, a tied copy in its own
// layout.
#pragma once

#include <vector>

#include "base/safetensors.h"
#include "trainer/compile/session.h"

namespace amp {

HostTensor transposed(const HostTensor& t);  // the last two dims; those before are 1; fp32 or fp64
std::vector<NamedTensor> gradient_tensors(const Session& session, double scale = 1);  // fp32, divided by scale
// The first parameter whose gradient is not finite; -1: none.
int first_bad_slot(const Session& session);

}  // namespace amp
