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
  int unit = -1;           // index of the decomposed operator (Unit); -1: a single node
};

struct PlanGraph {
  std::vector<DType> types;    // per value
  std::vector<char> carries;   // per value: depends on weights or floating-point inputs
  std::vector<char> eligible;  // per node: computes with floating-point values
  std::vector<char> wide;      // per node: not eligible because of float64, which keeps the file's type
  std::vector<Unit> units;
  std::vector<UnitSafety> in_unit;  // per node
  std::vector<int> vertex_of;       // per node; -1: not eligible
  std::vector<PlanVertex> vertices;
  std::vector<PaintVertex> paint;  // per vertex: neighbors are filled in; the caller sets the class
};

// Builds the graph. Its units are the decomposed operators whose kind the list names and, with Propagation::inputs,
// Linear and Attention.
PlanGraph make_plan_graph(const SourceGraph& g, const OpList& list);

}  // namespace amp
