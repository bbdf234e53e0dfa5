// Finds decomposed operators: groups of nodes that exporters write for one operator. The plan treats each group as that
// operator, because a LayerNorm that is partly in fp16 overflows in Pow and loses its epsilon. The patterns are those
// of PyTorch's, TensorFlow's and PaddlePaddle's exporters; operands of Add and Mul may be in either order. A group
// counts only if its inner values are not read elsewhere.
#pragma once

#include <string>
#include <vector>

#include "graph/source.h"

namespace amp {

// Converts an index of the imported graph to a vector index.
inline size_t at(int i) { return static_cast<size_t>(i); }

struct Unit {
  // The equivalent ONNX operator: LayerNormalization, RMSNormalization, MeanVarianceNormalization (axes other than the
  // last), GroupNormalization, Gelu, Softplus; or from find_calls(): Linear, Attention.
  std::string kind;
  std::vector<int> nodes;       // indices in the SourceGraph, ascending
  int input = -1, output = -1;  // indices of values: the data input and the result
};

std::vector<Unit> find_units(const SourceGraph& g);  // disjoint, in ascending order of the first node

// True if the unit's fused kernel keeps its epsilon in fp32. Norms without a weight are not fused
// (ops/passes/fused_operators.h): their nodes compute one by one.
bool keeps_epsilon(const SourceGraph& g, const Unit& unit);

// Calls that PyTorch's autocast treats as one decision. MatMul(x, W) + bias vector is linear. Attention whose operands
// are both scaled by a root beforehand is scaled_dot_product_attention (hand-written code scales the scores instead).
// Its mask becomes -inf and fully masked rows become 0, so the size of mask values does not matter.
std::vector<Unit> find_calls(const SourceGraph& g);

}  // namespace amp
