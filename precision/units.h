// Finds decomposed operators: groups of nodes that exporters write for one operator. The plan treats each group as that
// operator, because a LayerNorm that is partly in fp16 overflows in Pow and loses its epsilon. The patterns are those
// of PyTorch's, TensorFlow's and PaddlePaddle's exporters; operands of Add and Mul may be in either order. Values
// inside a group must have no readers outside of it.
#pragma once

#include <string>
#include <vector>

#include "graph/source.h"

namespace amp {

// Converts an index of nodes or values of the imported graph (int) to an index of a vector.
inline size_t at(int i) { return static_cast<size_t>(i); }

struct Unit {
  // The equivalent ONNX operator. From find_units(): LayerNormalization, RMSNormalization, MeanVarianceNormalization
  // (axes other than the last), GroupNormalization, Gelu, Softplus. From find_calls(): Linear, Attention.
  std::string kind;
  std::vector<int> nodes;       // indices in the SourceGraph, ascending
  int input = -1, output = -1;  // indices of values: the data input and the result
};

std::vector<Unit> find_units(const SourceGraph& g);  // the units are disjoint and ordered by their first node

// True if the unit's fused kernel keeps its epsilon in fp32. Norms without a weight are not fused
// (ops/passes/fused_operators.h), so their nodes compute one by one.
bool keeps_epsilon(const SourceGraph& g, const Unit& unit);

// Finds calls that PyTorch's autocast treats as one decision. MatMul(x, W) + bias vector is linear. Attention with q
// and k multiplied by the root of the scale is scaled_dot_product_attention (other code scales the scores). The size
// of that function's mask values is harmless: it turns the mask into -inf, and fully masked rows into 0.
std::vector<Unit> find_calls(const SourceGraph& g);

}  // namespace amp
