// Packing of an operand of a matrix product into the panels of backend/cpu/gemm/micro_kernel.h, converted to what the kernel
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

// How panels are laid out: one after the other, each steps(depth) * its width of 4-byte elements.
struct PanelLayout {
  int width;             // lanes of a panel
  bool pad;              // a last, narrower panel is filled up with zeros; else it is as wide as it has lanes
  bool pairs;            // elements are pairs of bf16 along the depth (a last odd one with zero), else fp32
  int64_t group = 1;     // steps along the depth are filled up with zeros to a multiple of it
  bool by_rows = false;  // within a group lane after lane, else step after step; then a panel has all its lanes

  int64_t steps(int64_t depth) const {
    const int64_t used = pairs ? (depth + 1) / 2 : depth;
    return (used + group - 1) / group * group;
  }
};

// The depth [p0, p0 + depth) of the lanes [l0, l0 + lanes).
void pack_panels(const PackSource& x, int64_t l0, int64_t lanes, int64_t p0, int64_t depth, const PanelLayout& o,
                 void* panels);

// sums[l] += the sum of lane l0 + l over depths [p0, p0 + depth), in order; where p0 is 0, sums[l] begins with 0.
// x: not depth-major.
void add_lanes(const PackSource& x, int64_t l0, int64_t lanes, int64_t p0, int64_t depth, float* sums);

}  // namespace amp::cpu
