// The constants of all graphs of a session, each in memory once. Graphs are compiled one by one, and folding computes
// equal constants anew for each graph, and for each layer: converted or transposed tensors of the model, masks, rows of
// the tables of positions.
#pragma once

#include <map>
#include <unordered_map>
#include <vector>

#include "backend/device.h"
#include "graph/graph.h"

namespace amp {

class SharedConstants {
 public:
  using Addresses = std::vector<const void*>;
  // Replaces each constant of at least 1 KiB by a tensor with the same type, dims and bytes that an earlier constant
  // has, if there is one. Returns the addresses of the graph's shared tensors. They stay in memory until release() was
  // called for every graph that has them, or clear().
  Addresses share(Graph& graph);
  void release(const Addresses& addresses);
  void clear();
  int64_t bytes() const { return bytes_; }  // of all shared tensors, each counted once
  // Returns the device copies of shared tensors, by the tensors' addresses. Programs make the copies (ProgramOptions).
  std::map<const void*, DeviceMemory>& on_device() { return on_device_; }

 private:
  struct Shared {
    uint64_t hash;
    HostTensor tensor;
    int64_t graphs;  // number of graphs that have it
  };
  const void* same(uint64_t hash, const HostTensor& t) const;

  std::unordered_map<const void*, Shared> shared_;
  std::unordered_multimap<uint64_t, const void*> by_hash_;
  int64_t bytes_ = 0;
  std::map<const void*, DeviceMemory> on_device_;
};

}  // namespace amp
