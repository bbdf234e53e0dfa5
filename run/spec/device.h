// DeviceSpec: settings of the device: threads, memory, limits, and how graphs are computed.
#pragma once

#include <cstdint>
#include <string>

namespace amp {

struct DeviceSpec {
  std::string device = "auto";
  bool remove_padding = true, skip_unlabeled = true, tf32 = false, fusion = true;
  int64_t threads = 0;        // 0: all cores
  std::string memory_budget;  // bytes for a training run; empty: no limit
  bool gradient_checkpointing = false;
  int64_t max_graph_nodes = 200000, max_activation_bytes = 0, max_constant_bytes = 67108864, in_memory_max_size = 0;
  int64_t seed = 42;
  bool profile = false;
};

}  // namespace amp
