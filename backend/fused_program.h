// What a Fused node computes: elementwise operators one after the other on elements of one place. Its values are
// numbered: the node's inputs first, then each step's result. A result has the storage type that the step's own node
// had, and is rounded to it, so that the numbers are those of the nodes that were fused.
#pragma once

#include <string>
#include <vector>

#include "backend/functors.h"
#include "base/dtype.h"
#include "graph/attrs.h"

namespace amp {

struct FusedStep {
  // Cast, Where, Dropout, or one of the functors' (backend/functors.h); last: sums of outputs (ops/fused_layout.h)
  std::string op;
  std::vector<int> in;  // values
  DType type = DType::f32;
  Attrs attrs;       // integers, numbers and strings
  bool out = false;  // an output of the node; they come in the order of the steps
};

struct FusedProgram {
  int n_in = 0;
  std::vector<FusedStep> steps;

  // The node's attributes; one line a step: "Add float16 0 3 {alpha=0x1p-1} out".
  Attrs attrs() const;
  static bool can_hold(const Attrs::Value& v);
  static FusedProgram parse(const Attrs& a, size_t n_in);
  int value_of(size_t step) const { return n_in + static_cast<int>(step); }
};

}  // namespace amp
