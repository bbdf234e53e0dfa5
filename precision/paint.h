// TensorFlow's mixed-precision painting (grappler auto_mixed_precision.cc), on a plain graph of vertices:
//
//    1. allow vertices become low (16-bit).
//    2. deny spreads forward through infer and clear vertices as long as a deny or infer vertex follows (possibly after
//       clear vertices), so that everything after a sensitive operation stays fp32.
//    3. infer and clear vertices become low if they are not denied and are between two allow vertices.
//    4. clear vertices connected to low ones through clear vertices become low, which moves casts to cheap places.
//
// The result depends only on the graph, not on the order of traversal.
#pragma once

#include <string_view>
#include <vector>

#include "precision/op_list.h"

namespace amp {

struct PaintVertex {
  OpClass cls = OpClass::infer;
  bool fixed = false;        // must not become low (in TensorFlow, a node that painting cannot or must not change)
  std::vector<int> in, out;  // neighbors along floating-point values; duplicates are allowed
};

enum class PaintPass : uint8_t { cls, after_deny, between_allow, beside_allow, unreached };
std::string_view name_of(PaintPass p);  // returns "class", "paint: downstream of deny", ...

struct Painted {
  bool low = false;
  PaintPass pass = PaintPass::unreached;
  int cause = -1;  // the vertex that caused the type (lowest index first); -1: its own class in the op-list
};

std::vector<Painted> paint(const std::vector<PaintVertex>& graph);

}  // namespace amp
