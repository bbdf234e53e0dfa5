// Composites that exporters spell out as groups of nodes, found on the imported graph so that the plan paints each as
// the one operator it is: a LayerNorm half in fp16 overflows in Pow and loses its epsilon. Spellings: graphs.md 3.1 and
// 3.2, operands of Add and Mul in either order. A group counts only if its inner values go nowhere else.
#pragma once

#include <string>
#include <vector>

#include "graph/source.h"

namespace amp {

struct Unit {
  // The ONNX operator it amounts to: LayerNormalization, RMSNormalization, MeanVarianceNormalization (axes other than
  // the last), GroupNormalization, Gelu, Softplus; or Linear (find_linear).
  std::string kind;
  std::vector<int> nodes;       // ascending
  int input = -1, output = -1;  // values: the data it works on, its result
};

std::vector<Unit> find_units(const SourceGraph& g);  // disjoint, ascending by first node

// MatMul(x, W) + bias vector: PyTorch's linear, one call under autocast.
std::vector<Unit> find_linear(const SourceGraph& g);

}  // namespace amp
