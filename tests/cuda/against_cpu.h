// A CUDA kernel against the CPU's in the emulator, on the nodes of a case of the operator table.
#pragma once

#include <string>
#include <vector>

#include "backend/cuda/emulated_device.h"
#include "tests/ops/op_cases.h"

namespace amp::test {

cuda::EmulatedDevice& device();

// The node's outputs as the emulated device computes them. Outputs and workspace begin as NaN; that inputs are left
// alone is checked.
std::vector<HostTensor> run_on_device(const Graph& g, const Node& node, const std::vector<HostTensor>& in,
                                      const RunState& state = {});

// Runs the case's nodes, forward and backward (those that have a CUDA kernel), one by one on the same inputs, drawn
// with number k. The bits must be the same when threads run backwards, and the CPU's where the operator is random.
// Returns how many nodes were run.
size_t agree_with_cpu(const std::string& op, const OpCase& c, DType type, uint64_t k);

}  // namespace amp::test
