// Compiles a cudnn-frontend graph that describes an attention or a convolution, for the device of a Cudnn.
#pragma once

#include "backend/cuda/runtime/cudnn.h"
#include "backend/cuda/runtime/cudnn_graph.h"

namespace amp::cuda {

// Compiles cuDNN's first plan and reserves its workspace. Returns false if there is no plan within the limits.
inline bool compile(cudnn_frontend::graph::Graph& graph, Cudnn& cudnn, const PlanLimits& limits,
                    DeviceMemory& workspace) {
  int64_t bytes = 0;
  if (!find_plans(graph, cudnn.handle().get(), limits).is_good() || !graph.build_plans().is_good() ||
      !graph.get_workspace_size(bytes).is_good() || bytes > limits.workspace)
    return false;
  if (bytes > 0) workspace = cudnn.workspace(bytes);
  return true;
}

}  // namespace amp::cuda
