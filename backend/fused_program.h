// The program of a Fused node: a sequence of elementwise operators that is applied to each element. Values are
// numbered: first the node's inputs, then the result of each step. Each result is rounded to the storage type of the
// node that the step replaces, so fused and unfused graphs give the same numbers.
#pragma once

#include <string>
#include <vector>

#include "backend/functors.h"
#include "base/dtype.h"
#include "graph/attrs.h"

namespace amp {

struct FusedStep {
  // Cast, Where, Dropout, or an operator from the table of functors (backend/functors.h). Sums of outputs are the last
  // steps (ops/fused_layout.h).
  std::string op;
  std::vector<int> in;  // numbers of the values that are its operands
  DType type = DType::f32;
  Attrs attrs;       // attributes: integers, floating-point numbers and strings
  bool out = false;  // the result is an output of the node; outputs are in the order of the steps
};

struct FusedProgram {
  int n_in = 0;
  std::vector<FusedStep> steps;

  // Returns the program as attributes of the node, one line per step: "Add float16 0 3 {alpha=0x1p-1} out".
  Attrs attrs() const;
  static bool can_hold(const Attrs::Value& v);
  static FusedProgram parse(const Attrs& a, size_t n_in);
  int value_of(size_t step) const { return n_in + static_cast<int>(step); }
};

}  // namespace amp
