// Packs an operand of a matrix product into the panels of micro_kernel.h, converted to the type that the kernel
// multiplies.
#pragma once

#include <cstdint>

#include "base/dtype.h"

namespace amp {
struct QuantizedMatrix;  // declared in backend/quantized_matrix.h
}

namespace amp::cpu {

// A matrix as lanes (rows of A, columns of B) times depth (k), stored with unit stride along one of the two.
struct PackSource {
  const void* data;
  DType dtype;       // f32, f16, bf16
  int64_t ld;        // elements between neighbors along the other dimension
  bool depth_major;  // true: depth has unit stride; false: lanes have unit stride
  // If not null, the elements are those of this matrix, rounded to dtype, and data and ld are not used.
  const QuantizedMatrix* quantized = nullptr;
};

// Layout of panels: consecutive, each with steps(depth) * width 4-byte elements.
struct PanelLayout {
  int width;   // lanes per panel
  bool pad;    // pad a narrower last panel with zeros; otherwise its width is its number of lanes
  bool pairs;  // elements are pairs of bf16 along the depth (an odd last one is paired with zero); otherwise fp32
  int64_t group = 1;  // the number of steps is padded with zeros to a multiple of `group`
  // A group is stored lane after lane instead of step after step. Panels of this kind always have `width` lanes.
  bool by_rows = false;

  int64_t steps(int64_t depth) const {
    const int64_t used = pairs ? (depth + 1) / 2 : depth;
    return (used + group - 1) / group * group;
  }
};

// Packs the depth range [p0, p0 + depth) of the lanes [l0, l0 + lanes).
void pack_panels(const PackSource& x, int64_t l0, int64_t lanes, int64_t p0, int64_t depth, const PanelLayout& o,
                 void* panels);

// sums[l] += the sum of lane l0 + l over depths [p0, p0 + depth), in order. If p0 is 0, sums[l] starts at 0. x must
// not be depth-major.
void add_lanes(const PackSource& x, int64_t l0, int64_t lanes, int64_t p0, int64_t depth, float* sums);

}  // namespace amp::cpu
