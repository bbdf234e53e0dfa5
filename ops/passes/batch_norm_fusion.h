// A pass over a finished graph, for the CPU: batch normalisation and the Relu or Clip behind it become one node, which
// stores the activation alone; so do their gradients, which find out anew where it was cut (ops/batch_norm.cc). Half of
// the passes over memory are left, the bits are the same.
#pragma once

#include "graph/graph.h"

namespace amp {

Graph activate_batch_norms(const Graph& g);

}  // namespace amp
