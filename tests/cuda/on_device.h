// Runs one core node on the emulated device and on the CPU.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "graph/graph.h"
#include "tests/cuda/guarded.h"
#include "tests/emulator/emulated_device.h"

namespace amp::test {

// A node with guarded memory that can be run several times with different operands.
class OnDevice {
 public:
  // An empty tensor stands for an absent input. out: storage type of floating outputs; empty: the inferred one.
  // placed: called with the device's input tensors before the kernel is prepared.
  OnDevice(cuda::EmulatedDevice& d, const char* op, const std::vector<HostTensor>& in, const Attrs& attrs,
           std::optional<DType> out, const std::function<void(const std::vector<Tensor>&)>& placed = {});
  std::vector<HostTensor> run(const std::vector<HostTensor>& in);
  int64_t workspace() const { return workspace_; }

 private:
  void* place(int64_t bytes);  // returns memory in which all bits are set

  cuda::EmulatedDevice& d_;
  Graph graph_;
  std::vector<Guarded> memory_;
  std::vector<Tensor> in_, out_;
  int64_t workspace_ = 0;
  RunState state_;
  Kernel kernel_;
};

// Computes the node on the CPU in fp64.
std::vector<HostTensor> on_cpu(const char* op, const std::vector<HostTensor>& in, const Attrs& attrs);

// Returns normally distributed values.
HostTensor draw(const Dims& dims, uint64_t seed, DType type = DType::f32);
// Returns the largest difference, relative to the largest element; infinite for NaN.
double worst(const HostTensor& got, const HostTensor& want);

}  // namespace amp::test
