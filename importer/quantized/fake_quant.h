// Quantisers spelled out: exports of quantisation-aware training (Brevitas, DoReFa, LSQ) round weights and activations
// by
//
//   x / scale [+ zero] -> Round -> Clip(low, high) [- zero] [* scale]      or      Clip -> * n -> Round -> / n
//
// A Round between a product with a constant and a Clip by constants, in either order, is one. The derivative of
// rounding is zero, so that nothing would train behind it; these networks were trained straight through (dx = dy at the
// Round, the Clip still cuts off), and train so here, as QuantizeLinear does. Any other Round keeps its derivative.
#pragma once

#include "graph/quantiser.h"
#include "importer/read/build.h"

namespace amp {

// Marks them (graph/quantiser.h), and says how many in the notes.
void find_quantisers(Built&);

}  // namespace amp
