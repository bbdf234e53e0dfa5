// Random graphs of elementwise nodes with broadcasting, casts, conditions and dropout.
#pragma once

#include <vector>

#include "backend/device.h"
#include "graph/graph.h"

namespace amp::test {

struct RandomGraph {
  explicit RandomGraph(uint64_t seed);
  // The outputs of `g`, this graph or one made of it, on a device.
  std::vector<HostTensor> run(const Graph& g, Device& device) const;

  Graph graph;

 private:
  std::vector<std::pair<std::string, HostTensor>> inputs_;
};

}  // namespace amp::test
