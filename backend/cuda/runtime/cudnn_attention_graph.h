// Describes an attention to cuDNN, independent of the device that runs it. A test builds the plans from the description
// of a GPU, on any machine.
#pragma once

#include "backend/cuda/attention.h"
#include "backend/cuda/runtime/cudnn_graph.h"

namespace amp::cuda {

// Identifiers of the graph's tensors, by which an execution receives their addresses.
enum AttentionTensor : int64_t {
  kQ = 1,
  kK,
  kV,
  kY,
  kStats,
  kBias,
  kQueryLengths,
  kKeyLengths,
  kKept,
  kDy,
  kDq,
  kDk,
  kDv
};

constexpr int64_t kAttentionWorkspace = int64_t{1} << 30;  // maximum bytes of workspace

// Adds the attention `a`, or its gradient, to an empty graph.
void describe_attention(cudnn_frontend::graph::Graph& graph, const Attention& a);

}  // namespace amp::cuda
