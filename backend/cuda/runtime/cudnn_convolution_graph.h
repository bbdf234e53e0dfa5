// Describes a convolution to cuDNN, independent of the device that runs it. A test builds the plans from the
// description of a GPU, on any machine.
#pragma once

#include "backend/cuda/convolution.h"
#include "backend/cuda/runtime/cudnn_convolution.h"
#include "backend/cuda/runtime/cudnn_graph.h"

namespace amp::cuda {

// Identifiers of the graph's tensors, by which an execution receives their addresses.
enum ConvolutionTensor : int64_t { kA = 1, kB, kConvolutionBias, kC };

// Adds the convolution to an empty graph. Returns false if cuDNN cannot address it (2^31 elements).
bool describe_convolution(cudnn_frontend::graph::Graph& graph, const Convolution& what);

// Returns the limits on plans for a convolution. tf32: fp32 operands may be rounded to TF32.
inline PlanLimits convolution_limits(const Convolution& what, bool tf32) {
  return {CudnnConvolution::kMostWorkspace, what.type != DType::f32 || tf32};
}

}  // namespace amp::cuda
