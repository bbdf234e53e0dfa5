// A product and GELU (tanh form) as one node, formed in graphs that include the backward pass, for devices whose
// library computes both in one launch.
//   MatMulGelu: in 0 a, 1 b, 2 bias (optional); out 0 y = GeluTanh(p), 1 p = MatMul(a, b, bias)
//   MatMulGeluGrad: in 0 a, 1 b, 2 p; out 0 GeluTanhGrad(p, MatMul(a, b))
// Attributes: those of MatMul. product: the type in which MatMulGeluGrad's product was stored as a separate value.
#pragma once

#include "graph/graph.h"

namespace amp {

// Fuses GeluTanh of a product with the product, and GeluTanhGrad with its product if that has no other readers.
Graph fuse_gelu(const Graph& g);

}  // namespace amp
