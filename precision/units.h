// Composites that exporters spell out as groups of nodes, found on the imported graph so that the plan paints each as
// the one operator it is: a LayerNorm half in fp16 overflows in Pow and loses its epsilon. Spellings are those of
// PyTorch's, TensorFlow's and PaddlePaddle's exporters, operands of Add and Mul in either order. A group counts only
// if its inner values go nowhere else.
#pragma once

#include <string>
#include <vector>

#include "graph/source.h"

namespace amp {

// Of an index of the imported graph, in a vector.
inline size_t at(int i) { return static_cast<size_t>(i); }

struct Unit {
  // The ONNX operator it amounts to: LayerNormalization, RMSNormalization, MeanVarianceNormalization (axes other than
  // the last), GroupNormalization, Gelu, Softplus; or of the calls below Linear, Attention.
  std::string kind;
  std::vector<int> nodes;       // ascending
  int input = -1, output = -1;  // values: the data it works on, its result
};

std::vector<Unit> find_units(const SourceGraph& g);  // disjoint, ascending by first node

// Whether the unit's kernel keeps its epsilon in fp32. Norms without a weight are no composite of ours
// (ops/passes/composites.h): their nodes compute one by one.
bool keeps_epsilon(const SourceGraph& g, const Unit& unit);

// Calls of PyTorch's, each one decision under autocast: MatMul(x, W) + bias vector is linear; attention with both
// operands scaled by a root beforehand is scaled_dot_product_attention (code that multiplies the scores is not), whose
// mask becomes -inf and whose fully masked rows 0, so that the mask's size does not matter.
std::vector<Unit> find_calls(const SourceGraph& g);

}  // namespace amp
