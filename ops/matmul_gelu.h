// Products and GELU (its tanh form) as one node, formed in finished graphs for devices whose library computes both in
// one launch.
//   MatMulGelu: in 0 a, 1 b, 2 bias (optional); out 0 y = GeluTanh(p), 1 p = MatMul(a, b, bias)
//   MatMulGeluGrad: in 0 a, 1 b, 2 p; out 0 GeluTanhGrad(p, MatMul(a, b))
// Attributes: MatMul's; product: the type that MatMulGeluGrad's product is stored in between, where it is.
#pragma once

#include "graph/graph.h"

namespace amp {

// GeluTanh of a product, and GeluTanhGrad of one that nobody else reads.
Graph fuse_gelu(const Graph& g);

}  // namespace amp
