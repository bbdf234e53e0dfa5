// Recognizes scalars that were typed or computed by a formula. A trained scalar matches only by chance.
#pragma once

#include "base/host_tensor.h"

namespace amp {

// True for 16-bit elements. Otherwise true if x, its square, root, exponential or multiple by pi is a decimal of at
// most five digits, or a fraction of small whole numbers. About one random float in ten passes.
bool from_formula(const HostTensor& scalar);

}  // namespace amp
