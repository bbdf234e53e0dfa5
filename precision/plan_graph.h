// The graph that classes are painted on: one vertex per node of floating arithmetic, one per spelled-out composite.
#pragma once

#include <vector>

#include "graph/source.h"
#include "precision/op_list.h"
#include "precision/paint.h"
#include "precision/safety.h"
#include "precision/units.h"

namespace amp {

struct PlanVertex {
  std::vector<int> nodes;  // ascending
  int unit = -1;           // index of the unit it is, -1: a single node
};

struct PlanGraph {
  std::vector<DType> types;    // by value
  std::vector<char> carries;   // by value: depends on weights or floating inputs
  std::vector<char> eligible;  // by node: computes with floats
  std::vector<char> wide;      // by node: not eligible because of float64, which stays what the file says
  std::vector<Unit> units;
  std::vector<UnitSafety> in_unit;  // by node
  std::vector<int> vertex_of;       // by node, -1: not eligible
  std::vector<PlanVertex> vertices;
  std::vector<PaintVertex> paint;  // by vertex: neighbours filled in, class left to the caller
};

// Composites are those whose kind the list names; under Propagation::inputs also Linear and Attention.
PlanGraph make_plan_graph(const SourceGraph& g, const OpList& list);

}  // namespace amp
