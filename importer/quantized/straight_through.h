// Straight-through estimators as exporters write them, and nodes at which gradients stop.
//
// PyTorch's x + (f(x) - x).detach(), with f rounding, taking a sign, or choosing one of several (hard Gumbel softmax,
// finite scalar and vector quantizers), loses its detach() in an inference file: x cancels out, f has no gradient, and
// nothing before it would train. The form is recognized where no gradient passes from f(x) to x but f(x) depends on x;
// its gradient is then that of x alone (Bengio et al., "Estimating or Propagating Gradients Through Stochastic
// Neurons", 2013). Spellings: x + (f - x), x - (x - f), (f + x) - x.
//
// Files that onnxruntime quantized dynamically (DynamicQuantizeLinear, MatMulInteger, a Mul by both scales) train
// straight through as well (ops/composed/quantize.h); their scales are constants.
#pragma once

#include <string>
#include <vector>

#include "graph/quantiser.h"
#include "importer/read/build.h"

namespace amp {

// Marks the forms (graph/quantiser.h: kDetached), and names them in the notes.
void find_straight_through(Built&);
// Marks the products with scales of dynamically quantized tensors (kQuantiserData).
void find_dynamic_scales(SourceGraph&);

// Where gradients stop: lines for people, one a node, that name the weights which get no gradient because of it. Call
// it once parameters are known.
std::vector<std::string> gradient_stops(const SourceGraph&);

}  // namespace amp
