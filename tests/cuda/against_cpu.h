// Compares a CUDA kernel with the CPU's, on the nodes of a case of the operator table, in the emulator or on another
// device.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/emulator/emulated_device.h"
#include "tests/ops/op_cases.h"

namespace amp::test {

cuda::EmulatedDevice& device();

// Computes the node's outputs on the device with kernel `name` (empty: the operator's). start: initial values of the
// outputs, for kernels that add to them; empty: NaN. The workspace starts as NaN. Checks that inputs do not change, and
// in the emulator that nothing outside the tensors is accessed.
std::vector<HostTensor> run_on_device(Device& d, const Graph& g, const Node& node, const std::vector<HostTensor>& in,
                                      const RunState& state = {}, const std::string& name = "",
                                      const std::vector<HostTensor>& start = {});
std::vector<HostTensor> run_on_device(const Graph& g, const Node& node, const std::vector<HostTensor>& in,
                                      const RunState& state = {});  // runs in the emulator

// Runs the case's nodes that have a CUDA kernel, forward and backward, one by one on the same inputs (random with seed
// k). Each runs twice; both runs must give the same bits. Random operators must give the CPU's bits. Returns the number
// of nodes. around_second(true) is called before the second run, (false) after it.
size_t agree_with_cpu(Device& d, const std::string& op, const OpCase& c, DType type, uint64_t k,
                      const std::function<void(bool)>& around_second = nullptr);
size_t agree_with_cpu(const std::string& op, const OpCase& c, DType type,
                      uint64_t k);  // runs in the emulator; the second run executes threads in reverse order

}  // namespace amp::test
