// Compiles a described graph for the open device.
#pragma once

#include "backend/cuda/runtime/cudnn.h"
#include "backend/cuda/runtime/cudnn_graph.h"

namespace amp::cuda {

// Compiles the plan that cuDNN puts first and reserves its workspace. False: there is none within the limits.
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
