// The cost of a plan for known shapes: for each source node the storage types of its values, the bytes written, and
// the casts inserted for it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace amp {

struct CastCost {
  DType from = DType::f32, to = DType::f32;
  bool weight = false;    // cast of a parameter; runs once per optimizer step, not per micro-batch
  bool backward = false;  // whether it is the cast of a gradient
  int64_t bytes = 0;      // bytes read and written
};

struct NodeCost {
  // the storage type of each value that other nodes read; empty if the node is fused or folded
  std::vector<DType> storage;
  int64_t bytes = 0;            // bytes written by its forward kernels
  std::vector<CastCost> casts;  // casts of its inputs and (marked `backward`) of the gradients that it passes on
};

struct PlanCost {
  std::map<std::string, Dims> shapes;  // shapes of the graph inputs for which the cost was measured
  std::vector<NodeCost> nodes;         // per source node
  int64_t stored_bytes() const;
  std::vector<CastCost> casts() const;  // returns the casts of all nodes
};

// g: a training (or forward) graph to which the plan is applied and in which casts are fused. Nodes without a source
// node (the loss) are excluded, except casts of a source node's value.
PlanCost measure_plan(const Graph& g, size_t source_nodes);

}  // namespace amp
