// The large constants of all graphs of a session, each in memory once. Graphs are compiled one by one, and folding
// computes equal constants anew for each: converted or transposed tensors of the model.
#pragma once

#include <map>
#include <unordered_map>

#include "backend/device.h"
#include "graph/graph.h"

namespace amp {

class SharedConstants {
 public:
  // Replaces each constant of at least 64 KiB by the tensor with the same type, dims and bytes of an earlier graph, if
  // there is one. The tensors stay in memory until clear().
  void share(Graph& graph);
  void clear();
  // The tensors' addresses and their copies in the memory of the device, which Programs make (ProgramOptions).
  std::map<const void*, DeviceMemory>& on_device() { return on_device_; }

 private:
  std::unordered_multimap<uint64_t, HostTensor> by_hash_;
  std::map<const void*, DeviceMemory> on_device_;
};

}  // namespace amp
