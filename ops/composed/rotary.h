// Rotary position embedding, for RotaryEmbedding (ops/composed/rotary.cc) and operators that contain it.
#pragma once

#include "graph/builder.h"

namespace amp {

// Rotates the first R of D elements. x is (B, S, H, D) with cos and sin (B, S, 1, R/2), or (B, H, S, D)
// with (B, 1, S, R/2).
ValueId rotate(Builder& b, ValueId x, ValueId cos, ValueId sin, bool interleaved);

}  // namespace amp
