// A CUDA kernel against the CPU's, on the nodes of a case of the operator table: in the emulator, or on another device.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "backend/cuda/emulated_device.h"
#include "tests/ops/op_cases.h"

namespace amp::test {

cuda::EmulatedDevice& device();

// The node's outputs as the device computes them, by kernel `name` (empty: the operator's); start: what they begin
// with. Outputs and workspace begin as NaN; that inputs are left alone is checked, and in the emulator that nothing
// outside is read or written.
std::vector<HostTensor> run_on_device(Device& d, const Graph& g, const Node& node, const std::vector<HostTensor>& in,
                                      const RunState& state = {}, const std::string& name = "",
                                      const std::vector<HostTensor>& start = {});
std::vector<HostTensor> run_on_device(const Graph& g, const Node& node, const std::vector<HostTensor>& in,
                                      const RunState& state = {});  // in the emulator

// Runs the case's nodes, forward and backward (those that have a CUDA kernel), one by one on the same inputs, drawn
// with number k, twice. The bits must be the same, and the CPU's where the operator is random. Returns how many nodes
// were run.
// around_second(true) comes before the second run, (false) after it.
size_t agree_with_cpu(Device& d, const std::string& op, const OpCase& c, DType type, uint64_t k,
                      const std::function<void(bool)>& around_second = nullptr);
size_t agree_with_cpu(const std::string& op, const OpCase& c, DType type, uint64_t k);  // second: threads run backwards

}  // namespace amp::test
