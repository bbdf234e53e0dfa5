// Shared code of the direct convolution kernels: register tiles, SIMD levels, packed planes.
#pragma once

#include <algorithm>

#include "backend/cpu/conv/conv_direct.h"
#include "backend/cpu/vectors.h"

namespace amp::conv_tiles {

using cpu::at_level;
using cpu::VectorOf;

// Number of vectors per row of a register tile. A tile has 6, 4, 2 or 1 rows (output channels) and as many vectors of
// Lanes floats as fit into the registers (32 registers of 16 floats, 16 registers of 8 or 4 floats).
template <int Lanes, int Rows>
constexpr int kColumns = Lanes == 16 ? (Rows == 6   ? 4
                                        : Rows == 4 ? 6
                                                    : 8)
                                     : (Rows == 6   ? 2
                                        : Rows == 4 ? 3
                                        : Rows == 2 ? 4
                                                    : 6);
constexpr int64_t kLane = 16;    // buffers are laid out for the widest SIMD level
constexpr int64_t kSlack = 160;  // floats that a tile may read past the end of a plane

inline int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }
inline int64_t panel_rows(int64_t left) { return left >= 6 ? 6 : left >= 4 ? 4 : left >= 2 ? 2 : 1; }

inline void pack_row(const ShiftPlan::Axis& a, int64_t phase, const float* source, float* to) {
  // Element p is source[p * phases + phase - origin], or zero if that index is outside of the source.
  const int64_t shift = phase - a.origin;
  const int64_t begin = shift >= 0 ? 0 : std::min(a.length, (-shift + a.phases - 1) / a.phases);
  const int64_t room = a.source - shift;
  const int64_t end = room <= 0 ? begin : std::clamp((room + a.phases - 1) / a.phases, begin, a.length);
  std::fill(to, to + begin, 0.0f);
  if (a.phases == 1) {
    std::copy(source + shift + begin, source + shift + end, to + begin);
  } else {
    for (int64_t p = begin; p < end; ++p) to[p] = source[p * a.phases + shift];
  }
  std::fill(to + end, to + a.length, 0.0f);
}

// Packs the channels of one group of one image. Each channel becomes one zero-padded plane for each phase of the
// strides in use (ShiftPlan::planes).
inline void pack_planes(const ShiftPlan& plan, const float* source, int64_t channels, float* to) {
  const auto& [d, h, w] = plan.axis;
  float* row = to;
  for (int64_t c = 0; c < channels; ++c, source += d.source * h.source * w.source) {
    for (const auto& phase : plan.planes) {
      for (int64_t pd = 0; pd < d.length; ++pd) {
        const int64_t id = pd * d.phases + phase[0] - d.origin;
        for (int64_t ph = 0; ph < h.length; ++ph, row += w.length) {
          const int64_t ih = ph * h.phases + phase[1] - h.origin;
          if (id < 0 || id >= d.source || ih < 0 || ih >= h.source)
            std::fill(row, row + w.length, 0.0f);
          else
            pack_row(w, phase[2], source + (id * h.source + ih) * w.source, row);
        }
      }
    }
  }
  std::fill_n(row, kSlack, 0.0f);
}

}  // namespace amp::conv_tiles
