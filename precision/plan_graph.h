// The graph on which classes are painted: one vertex per node with floating-point arithmetic or per decomposed
// operator.
#pragma once

#include <vector>

#include "graph/source.h"
#include "precision/op_list.h"
#include "precision/paint.h"
#include "precision/safety.h"
#include "precision/units.h"

namespace amp {

struct PlanVertex {
  std::vector<int> nodes;  // indices in the SourceGraph, ascending
  int unit = -1;           // index of the decomposed operator (Unit); -1: the vertex is a single node
};

struct PlanGraph {
  std::vector<DType> types;    // per value
  std::vector<char> carries;   // per value: whether it depends on weights or floating-point inputs
  std::vector<char> eligible;  // per node: whether it computes with floating-point values
  std::vector<char> wide;      // per node: whether it is not eligible because it uses float64, whose type is kept
  std::vector<Unit> units;
  std::vector<UnitSafety> in_unit;  // per node: protection by the unit that the node is part of (safety.h)
  std::vector<int> vertex_of;       // per node: index of its vertex; -1: not eligible
  std::vector<PlanVertex> vertices;
  std::vector<PaintVertex> paint;  // per vertex: neighbors are set here, the class by the caller
};

// Builds the graph. Decomposed operators become units if the list names their kind. With Propagation::inputs,
// Linear and Attention are units too.
PlanGraph make_plan_graph(const SourceGraph& g, const OpList& list);

}  // namespace amp
