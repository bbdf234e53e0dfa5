// The cost of a plan for known shapes: per source node the storage type of its values, their bytes, and the casts that
// were inserted for it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace amp {

struct CastCost {
  DType from = DType::f32, to = DType::f32;
  bool weight = false;    // cast of a parameter, which runs once per optimizer step for all micro-batches
  bool backward = false;  // cast of a gradient
  int64_t bytes = 0;      // bytes read and written
};

struct NodeCost {
  // type of each value that other nodes read, in order; empty if the node is fused or folded
  std::vector<DType> storage;
  int64_t bytes = 0;            // bytes written by its forward kernels
  std::vector<CastCost> casts;  // casts of its inputs and (marked `backward`) of the gradients that it passes on
};

struct PlanCost {
  std::map<std::string, Dims> shapes;  // shape of each graph input for which the cost was measured
  std::vector<NodeCost> nodes;         // per source node
  int64_t stored_bytes() const;
  std::vector<CastCost> casts() const;  // casts of all nodes
};

// g: a training (or forward) graph with the plan applied and casts fused. Nodes without a source node (the loss) are
// excluded, except for casts of a source node's value.
PlanCost measure_plan(const Graph& g, size_t source_nodes);

}  // namespace amp
