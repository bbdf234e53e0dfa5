// Numbers that people type or formulas give. A trained scalar is none of them but by chance.
#pragma once

#include "base/host_tensor.h"

namespace amp {

// True for an element of 16 bits, and for a number that is, or whose square, root, exponential or multiple of pi is, a
// decimal of at most five digits or a fraction of small whole numbers. About one random float in ten passes.
bool from_formula(const HostTensor& scalar);

}  // namespace amp
