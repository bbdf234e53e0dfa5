// Random graphs of elementwise nodes with broadcasting, casts, conditions and dropout.
#pragma once

#include <vector>

#include "backend/device.h"
#include "graph/graph.h"

namespace amp::test {

struct RandomGraph {
  explicit RandomGraph(uint64_t seed);
  // Runs `g`, which is this graph or derived from it, on a device and returns its outputs.
  std::vector<HostTensor> run(const Graph& g, Device& device) const;

  Graph graph;

 private:
  std::vector<std::pair<std::string, HostTensor>> inputs_;
};

}  // namespace amp::test
