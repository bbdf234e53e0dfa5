// Rotary position embedding, also for operators that contain it (ops/composed/rotary.cc).
#pragma once

#include "graph/builder.h"

namespace amp {

// x: (B, S, H, D) with cos and sin (B, S, 1, R/2), or (B, H, S, D) with (B, 1, S, R/2). Rotates the first R
// elements of D.
ValueId rotate(Builder& b, ValueId x, ValueId cos, ValueId sin, bool interleaved);

}  // namespace amp
