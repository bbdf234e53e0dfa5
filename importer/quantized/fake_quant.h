// Finds unfused quantizers. Exports of quantization-aware training (Brevitas, DoReFa, LSQ) round weights and
// activations by
//
//     x / scale [+ zero] -> Round -> Clip(low, high) [- zero] [* scale]      or      Clip -> * n -> Round -> / n
//
// The pattern is a Round between a product with a constant and a Clip by constants, in either order. The derivative of
// rounding is zero, so nothing before the Round would be trained. These networks were trained with a straight-through
// estimator (dx = dy at the Round; the Clip still clips), and this program does the same, as for QuantizeLinear. Any
// other Round keeps its derivative.
#pragma once

#include "graph/quantizer.h"
#include "importer/read/build.h"

namespace amp {

// Marks the quantizers (graph/quantizer.h) and adds a note with their number.
void find_quantizers(Built&);

}  // namespace amp
