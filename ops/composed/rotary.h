// Rotary position embedding, for the operators that have it inside (ops/composed/rotary.cc).
#pragma once

#include "graph/builder.h"

namespace amp {

// x: (B, S, H, D) with cos and sin (B, S, 1, R/2), or (B, H, S, D) with (B, 1, S, R/2); the first R of D are turned.
ValueId rotate(Builder& b, ValueId x, ValueId cos, ValueId sin, bool interleaved);

}  // namespace amp
