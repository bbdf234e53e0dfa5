// Module backend: everything that runs a Graph. This file: tensors, kernels and the kernel table.
//
// A kernel is prepared once, when a Program is compiled. Shapes, types and addresses are known then, so the
// returned closure only computes. Every CPU kernel accepts any floating-point storage type for each floating-point
// input and output. It computes in fp32, or in fp64 if its inputs are fp64.
#pragma once

#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "graph/graph.h"
#include "graph/op.h"

namespace amp {

class DeviceCommunicator;  // defined in backend/device_communicator.h
class GradientWatch;       // defined in backend/gradient_watch.h

enum class DeviceKind : uint8_t { cpu, cuda };
class Device;

// A non-owning view: contiguous, row-major.
struct Tensor {
  void* data = nullptr;
  DType dtype = DType::f32;
  Dims dims;

  int64_t numel() const { return amp::numel(dims); }
  int64_t bytes() const { return numel() * size_of(dtype); }
  int64_t rank() const { return static_cast<int64_t>(dims.size()); }
  template <class T>
  T* as() const {
    if (dtype != DTypeOf<T>::value) type_mismatch(dtype, DTypeOf<T>::value);
    return static_cast<T*>(data);
  }
};

// The state that nodes with random results read. The same seed and step give the same bits for every batch shape and
// number of threads, and after a resume.
struct RunState {
  uint64_t seed = 0;
  int64_t step = 0;                     // number of attempted optimizer steps
  int64_t samples_before = 0;           // samples of the accumulation step in earlier micro-batches
  DeviceCommunicator* ranks = nullptr;  // null for one rank; may be read only on the host
  GradientWatch* watch = nullptr;
};

using Kernel = std::function<void()>;

struct KernelArgs {
  const Node& node;
  std::vector<Tensor> in, out;      // an absent optional input has no data and no dims
  void* workspace = nullptr;        // memory of OpDef::workspace bytes, 64-byte aligned
  const RunState* state = nullptr;  // is in the device's memory
  Device* device = nullptr;         // null for the CPU
  // Address at which the communicator of the run will be stored. Null if there is none.
  DeviceCommunicator* const* ranks = nullptr;
  // The node that would compute input OpDef::reads_deferred, which is not in memory (OpDef::deferred). Null: all inputs
  // are in memory.
  std::shared_ptr<const KernelArgs> deferred = nullptr;

  bool has(size_t i) const { return i < in.size() && in[i].data != nullptr; }
  const Attrs& attrs() const { return node.attrs; }
};

using PrepareKernel = Kernel (*)(const KernelArgs&);
using MeasureWorkspace = int64_t (*)(const Graph&, const Node&);

PrepareKernel find_kernel(DeviceKind device, std::string_view op);  // returns null if there is no kernel
// Returns the workspace function of a CUDA kernel; null if it needs no workspace. (CPU kernels use OpDef::workspace.)
MeasureWorkspace find_workspace(DeviceKind device, std::string_view op);

struct RegisterKernel {
  RegisterKernel(DeviceKind device, std::string_view op, PrepareKernel prepare, MeasureWorkspace workspace = nullptr);
};

// True if the kernel computes in fp64, because some input is fp64. Integers are computed in their own type.
inline bool in_double(const KernelArgs& a) {
  for (const Tensor& t : a.in) {
    if (t.data && t.dtype == DType::f64) return true;
  }
  return !a.out.empty() && a.out[0].dtype == DType::f64;
}

}  // namespace amp
