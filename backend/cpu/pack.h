// Packing of an operand of a matrix product into the panels of backend/cpu/micro_kernel.h, converted to what the kernel
// multiplies.
#pragma once

#include <cstdint>

#include "base/dtype.h"

namespace amp::cpu {

// A matrix seen as lanes (rows of A, columns of B) times depth (k), stored with unit stride along one of the two.
struct PackSource {
  const void* data;
  DType dtype;       // f32, f16, bf16
  int64_t ld;        // elements between neighbours of the other direction
  bool depth_major;  // unit stride along the depth
};

// The depth [p0, p0 + depth) of the lanes [l0, l0 + lanes) as a panel of `width` lanes (zeros beyond `lanes`).
// pairs: bf16 pairs along the depth (a last odd one with zero), else fp32.
void pack_panel(const PackSource& x, int64_t l0, int lanes, int width, int64_t p0, int64_t depth, bool pairs,
                void* panel);

}  // namespace amp::cpu
