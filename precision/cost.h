// What a plan costs once shapes are known: per source node the storage type of what it leaves behind, bytes, and the
// casts that were inserted for it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace amp {

struct CastCost {
  DType from = DType::f32, to = DType::f32;
  bool weight = false;    // of a parameter: made once per optimizer step, shared by all micro-batches
  bool backward = false;  // of a gradient
  int64_t bytes = 0;      // read and written
};

struct NodeCost {
  std::vector<DType>
      storage;        // of each value that other nodes read, in order; empty: absorbed by a composite, or folded
  int64_t bytes = 0;  // written by its forward kernels
  std::vector<CastCost> casts;  // of its inputs; under `backward`, of the gradients it passes on
};

struct PlanCost {
  std::map<std::string, Dims> shapes;  // of the inputs it was measured for
  std::vector<NodeCost> nodes;         // by source node
  int64_t stored_bytes() const;
  std::vector<CastCost> casts() const;  // of all nodes
};

// g: a training (or forward) graph with the plan applied, casts absorbed. What belongs to no source node (the loss) is
// left out, but for casts of what a source node made.
PlanCost measure_plan(const Graph& g, size_t source_nodes);

}  // namespace amp
