// TensorFlow's mixed-precision painting (grappler auto_mixed_precision.cc), on a plain graph of vertices:
//
//   1. allow vertices are low;
//   2. deny spreads forward through infer and clear vertices as long as a deny or infer vertex lies ahead (clear ones
//      in between), so that what follows a sensitive operation stays fp32;
//   3. infer and clear vertices that lie between allow vertices (both ways, not denied) become low;
//   4. clear vertices joined to low ones through clear vertices become low: casts move to where they cost nothing.
//
// The result depends on the graph alone, never on an order of traversal.
#pragma once

#include <string_view>
#include <vector>

#include "precision/op_list.h"

namespace amp {

struct PaintVertex {
  OpClass cls = OpClass::infer;
  bool fixed = false;        // never becomes low (TensorFlow: a node that cannot or must not be processed)
  std::vector<int> in, out;  // neighbours along floating values; repeats are harmless
};

enum class PaintPass : uint8_t { cls, after_deny, between_allow, beside_allow, unreached };
std::string_view name_of(PaintPass p);  // "class", "paint: downstream of deny", ...

struct Painted {
  bool low = false;
  PaintPass pass = PaintPass::unreached;
  int cause = -1;  // the vertex the colour came from (lowest index first), -1: its own class
};

std::vector<Painted> paint(const std::vector<PaintVertex>& graph);

}  // namespace amp
