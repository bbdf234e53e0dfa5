// Finds the plans that cuDNN can compile for a described graph, on a GPU or for the description of a GPU (tests/cudnn).
#pragma once

#include <cudnn_frontend.h>

#include "base/dtype.h"
#include "base/error.h"

namespace amp::cuda {

inline cudnn_frontend::DataType_t cudnn_type(DType t) {
  switch (t) {
    case DType::f32:
      return cudnn_frontend::DataType_t::FLOAT;
    case DType::f16:
      return cudnn_frontend::DataType_t::HALF;
    case DType::bf16:
      return cudnn_frontend::DataType_t::BFLOAT16;
    default:
      bug(cat("a cuDNN tensor of ", name_of(t)));
  }
}

struct PlanLimits {
  int64_t workspace = 0;     // maximum bytes
  bool tensor_cores = true;  // true: fp32 operands may be rounded to TF32
};

// Requests cuDNN's plans of a described graph, the likely fastest first. Keeps those that are deterministic, sum in
// fp32 and are within the limits. Returns an error if none is left. handle: null if only a description of the device
// exists.
inline cudnn_frontend::error_t find_plans(cudnn_frontend::graph::Graph& g, cudnnHandle_t handle,
                                          const PlanLimits& limits) {
  using cudnn_frontend::HeurMode_t;
  using Note = cudnn_frontend::NumericalNote_t;
  cudnn_frontend::error_t e = g.validate();
  if (e.is_good()) e = handle ? g.build_operation_graph(handle) : g.build_operation_graph();
  if (e.is_good()) e = g.create_execution_plans({HeurMode_t::A, HeurMode_t::FALLBACK});
  if (!e.is_good()) return e;
  std::vector<Note> unwanted{Note::NONDETERMINISTIC, Note::REDUCED_PRECISION_REDUCTION};
  if (!limits.tensor_cores) unwanted.insert(unwanted.end(), {Note::TENSOR_CORE, Note::DOWN_CONVERT_INPUTS});
  g.deselect_numeric_notes(unwanted);
  g.deselect_workspace_greater_than(limits.workspace);
  return g.check_support();
}

}  // namespace amp::cuda
