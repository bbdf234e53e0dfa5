// A pass over a complete graph (backward included), for the CPU. Batch normalization and the Relu or Clip after it
// become one node, which stores only the activation. Their gradients become one node, which recomputes where the
// activation was clipped (ops/batch_norm.cc). This halves the memory traffic; the bits do not change.
#pragma once

#include "graph/graph.h"

namespace amp {

Graph activate_batch_norms(const Graph& g);

}  // namespace amp
