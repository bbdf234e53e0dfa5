// How cuDNN is asked for an attention, apart from the device that runs it: a test builds its plans from the description
// of a GPU, on any machine.
#pragma once

#include <cudnn_frontend.h>

#include "backend/cuda/attention.h"

namespace amp::cuda {

// Identities of the graph's tensors, for its execution.
enum AttentionTensor : int64_t { kQ = 1, kK, kV, kY, kStats, kBias, kDy, kDq, kDk, kDv };

// Adds the attention `a`, or its gradient, to an empty graph.
void describe_attention(cudnn_frontend::graph::Graph& graph, const Attention& a);

}  // namespace amp::cuda
