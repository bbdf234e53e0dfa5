// Straight-through estimators in the forms that exporters write, and nodes at which gradients stop.
//
// PyTorch's x + (f(x) - x).detach(), with an f that rounds, takes a sign or selects (hard Gumbel softmax, finite scalar
// and vector quantizers), loses its detach() in an inference file. Then x cancels out, f has no gradient, and nothing
// before it would be trained. The form is recognized if f(x) depends on x but no gradient passes from f(x) to x. Its
// gradient is then that of x (Bengio et al., "Estimating or Propagating Gradients Through Stochastic Neurons", 2013).
// Forms: x + (f - x), x - (x - f), (f + x) - x.
//
// Files that onnxruntime quantized dynamically (DynamicQuantizeLinear, MatMulInteger, a Mul by both scales) are trained
// straight through as well (ops/composed/quantize.h); their scales are constants.
#pragma once

#include <string>
#include <vector>

#include "graph/quantizer.h"
#include "importer/read/build.h"

namespace amp {

// Marks each occurrence of these forms with kDetached (graph/quantizer.h) and names it in the notes.
void find_straight_through(Built&);
// Marks each Mul by the scales of dynamically quantized tensors with kQuantizerData (graph/quantizer.h).
void find_dynamic_scales(SourceGraph&);

// Returns messages for the user, one per node at which gradients stop. Each message lists the weights that get no
// gradient because of that node. Parameters must have been discovered before.
std::vector<std::string> gradient_stops(const SourceGraph&);

}  // namespace amp
