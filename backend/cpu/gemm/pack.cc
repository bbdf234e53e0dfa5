// Packing of matrix operands into panels (pack.h), with conversion to fp32 or bf16 pairs. Depth-major sources are
// transposed in blocks of eight lanes, other sources are distributed row by row to the panels. Both paths give the same
// panels.

#include "backend/cpu/gemm/pack.h"

#include <algorithm>

#include "backend/cpu/gemm/bf16_pairs.h"
#include "backend/cpu/gemm/block_transpose.h"
#include "backend/cpu/gemm/pack_quantized.h"
#include "backend/cpu/isa_kernels.h"
#include "base/simd.h"

namespace amp::cpu {
namespace {

constexpr int64_t kStrip = 512;  // elements that are converted at a time

const float* as_float(const float* x, int64_t, float*) { return x; }
template <class S>
const float* as_float(const S* x, int64_t n, float* scratch) {
  to_float(x, scratch, n);
  return scratch;
}

// Packs lanes (rows of A or columns of B) into a panel. row(l) returns the n contiguous elements of
// lane l.
template <class Row>
void interleave(int64_t lanes, int64_t n, float* to, int64_t width, const Row& row) {
  const auto transpose_8 = isa_kernels().transpose_8;
  const int64_t whole = transpose_8 && lanes >= 8 ? n / 8 * 8 : 0;
  for (int64_t l = 0; whole > 0 && l < lanes; l += 8) {
    const int64_t first = std::min(l, lanes - 8);  // the last group may repeat lanes
    const float* from[8];
    for (int64_t i = 0; i < 8; ++i) from[i] = row(first + i);
    transpose_8(from, whole, to + first, width);
  }
  for (int64_t l = 0; l < lanes; ++l) {
    const float* from = row(l);
    for (int64_t p = whole; p < n; ++p) std::memcpy(to + p * width + l, from + p, 4);
  }
}

// Number of rows, consecutive in depth, that deal() distributes to the panels at a time, so that whole cache lines of
// each panel are written.
constexpr int64_t kDealtRows = 8;
struct Rows {
  const float* data;
  int64_t ld, count, lanes;
};
// Like deal(), but for a panel width that is fixed at compile time, so that a copy is a few vector moves.
template <int kWidth>
void deal_fixed(const Rows& x, float* to, int64_t panel) {
  for (int64_t q = 0; q < x.lanes / kWidth; ++q) {
    for (int64_t r = 0; r < x.count; ++r)
      std::memcpy(to + q * panel + r * kWidth, x.data + r * x.ld + q * kWidth, sizeof(float) * kWidth);
  }
}
void deal(const Rows& x, int64_t depth_at, int64_t depth, const PanelLayout& o, float* panels) {
  const int64_t whole = x.lanes / o.width, rest = x.lanes % o.width, panel = depth * o.width;
  float* to = panels + depth_at * o.width;
  switch (o.width) {
    case 14:
      deal_fixed<14>(x, to, panel);
      break;
    case 32:
      deal_fixed<32>(x, to, panel);
      break;
    case 16:
      deal_fixed<16>(x, to, panel);
      break;
    case 12:
      deal_fixed<12>(x, to, panel);
      break;
    case 8:
      deal_fixed<8>(x, to, panel);
      break;
    case 6:
      deal_fixed<6>(x, to, panel);
      break;
    default:
      for (int64_t q = 0; q < whole; ++q) {
        for (int64_t r = 0; r < x.count; ++r)
          std::copy_n(x.data + r * x.ld + q * o.width, o.width, to + q * panel + r * o.width);
      }
  }
  if (rest == 0) return;
  const int64_t width = o.pad ? o.width : rest;
  for (int64_t r = 0; r < x.count; ++r) {
    float* const last = panels + whole * panel + (depth_at + r) * width;
    std::copy_n(x.data + r * x.ld + whole * o.width, rest, last);
    std::fill(last + rest, last + width, 0.0f);
  }
}

// Like deal() for rows that are computed first: make(depth, lane, n, to) writes n lanes. Writes the first `used` rows
// of panels that have `depth` rows.
template <class Make>
void deal_made(int64_t lanes, int64_t used, int64_t depth, const PanelLayout& o, float* panels, const Make& make) {
  alignas(64) float made[kDealtRows * kStrip];
  const int64_t strip = kStrip / o.width * o.width;
  for (int64_t l = 0; l < lanes; l += strip) {
    const int64_t n = std::min(strip, lanes - l);
    for (int64_t p = 0; p < used; p += kDealtRows) {
      const int64_t rows = std::min(kDealtRows, used - p);
      for (int64_t r = 0; r < rows; ++r) make(p + r, l, n, made + r * kStrip);
      deal({made, kStrip, rows, n}, p, depth, o, panels + l * depth);
    }
  }
}

void zero_padding(int64_t lanes, int64_t depth, const PanelLayout& o, float* panels) {
  const int64_t rest = lanes % o.width;
  if (rest == 0 || !o.pad) return;
  float* last = panels + lanes / o.width * depth * o.width;
  for (int64_t p = 0; p < depth; ++p) std::fill(last + p * o.width + rest, last + (p + 1) * o.width, 0.0f);
}

// Calls fn(first lane, lanes, width of the panel's rows, panel) for each panel.
template <class Fn>
void each_panel(int64_t lanes, int64_t depth, const PanelLayout& o, float* panels, const Fn& fn) {
  for (int64_t l = 0; l < lanes; l += o.width) {
    const int64_t n = std::min<int64_t>(o.width, lanes - l);
    fn(l, n, o.pad ? o.width : n, panels + l * depth);
  }
}

// Packs n lanes, which are ld apart and have `depth` contiguous elements each, as fp32.
void interleave_as_float(const float* x, int64_t ld, int64_t n, int64_t depth, float* panel, int64_t width) {
  interleave(n, depth, panel, width, [&](int64_t i) { return x + i * ld; });
}
template <class S>
void interleave_as_float(const S* x, int64_t ld, int64_t n, int64_t depth, float* panel, int64_t width) {
  float scratch[32 * kStrip];
  for (int64_t at = 0; at < depth; at += kStrip) {
    const int64_t length = std::min(kStrip, depth - at);
    for (int64_t i = 0; i < n; ++i) to_float(x + i * ld + at, scratch + i * kStrip, length);
    interleave(n, length, panel + at * width, width, [&](int64_t i) { return scratch + i * kStrip; });
  }
}

// Prefetches n elements of a row that is needed soon. The hardware prefetcher detects no pattern in rows that are
// far apart.
template <class S>
void prefetch(const S* row, int64_t n) {
  constexpr int64_t kLine = 64 / sizeof(S), kFew = 256;
  for (int64_t i = 0; n <= kFew && i < n; i += kLine) __builtin_prefetch(row + i);
}
constexpr int64_t kRowsAhead = 16;

template <class S>
void pack_float(const PackSource& x, int64_t l0, int64_t lanes, int64_t p0, int64_t depth, const PanelLayout& o,
                float* panels) {
  const S* src = static_cast<const S*>(x.data);
  if (!x.depth_major) {
    const auto row = [&](int64_t p, int64_t l) { return src + (p0 + std::min(p, depth - 1)) * x.ld + l0 + l; };
    if constexpr (std::is_same_v<S, float>) {
      for (int64_t p = 0; p < depth; p += kDealtRows) {
        const int64_t rows = std::min(kDealtRows, depth - p);
        for (int64_t r = 0; r < rows; ++r) prefetch(row(p + r + kRowsAhead, 0), lanes);
        deal({row(p, 0), x.ld, rows, lanes}, p, depth, o, panels);
      }
    } else {
      deal_made(lanes, depth, depth, o, panels, [&](int64_t p, int64_t l, int64_t n, float* to) {
        prefetch(row(p + kRowsAhead, l), n);
        to_float(row(p, l), to, n);
      });
    }
    return;
  }
  each_panel(lanes, depth, o, panels, [&](int64_t l, int64_t n, int64_t width, float* panel) {
    interleave_as_float(src + (l0 + l) * x.ld + p0, x.ld, n, depth, panel, width);
  });
  zero_padding(lanes, depth, o, panels);
}

// Packs bf16 pairs, which are handled as 4-byte elements.
void pack_pairs(const PackSource& x, int64_t l0, int64_t lanes, int64_t p0, int64_t depth, const PanelLayout& o,
                float* panels) {
  const uint16_t* src = static_cast<const uint16_t*>(x.data);
  const int64_t whole = depth / 2, used = (depth + 1) / 2, steps = o.steps(depth);
  if (used < steps) {
    each_panel(lanes, steps, o, panels, [&](int64_t, int64_t, int64_t width, float* panel) {
      std::fill(panel + used * width, panel + steps * width, 0.0f);
    });
  }
  if (x.depth_major) {
    each_panel(lanes, steps, o, panels, [&](int64_t l, int64_t n, int64_t width, float* panel) {
      const auto stored = [&](int64_t i) { return src + (l0 + l + i) * x.ld + p0; };
      interleave(n, whole, panel, width, [&](int64_t i) { return reinterpret_cast<const float*>(stored(i)); });
      for (int64_t i = 0; i < n && used > whole; ++i) {
        const uint32_t odd = stored(i)[depth - 1];
        std::memcpy(panel + whole * width + i, &odd, 4);
      }
    });
    return zero_padding(lanes, steps, o, panels);
  }
  const auto* const rows = reinterpret_cast<const BFloat16*>(src);
  const auto row = [&](int64_t p, int64_t l) { return rows + (p0 + std::min(p, depth - 1)) * x.ld + l0 + l; };
  at_level([&]<int Lanes>() AMP_INLINE {
    deal_made(lanes, used, steps, o, panels, [&](int64_t s, int64_t l, int64_t n, float* to) AMP_INLINE {
      for (const int64_t p : {2 * s, 2 * s + 1}) prefetch(row(p + kRowsAhead, l), n);
      bf16_pairs::zip<Lanes>(row(2 * s, l), s < whole ? row(2 * s + 1, l) : nullptr, n, to);
    });
  });
}

// Packs pairs in groups of 16 steps, lane after lane within a group.
void pack_row_groups(const PackSource& x, int64_t l0, int64_t lanes, int64_t p0, int64_t depth, const PanelLayout& o,
                     float* panels) {
  constexpr int64_t kGroup = TileUnit::kTile, kElements = 2 * kGroup;
  const BFloat16* src = static_cast<const BFloat16*>(x.data);
  const int64_t steps = o.steps(depth), panel_size = steps * o.width;
  // Returns the address of lane l in a group.
  const auto row = [&](int64_t l, int64_t group) {
    return panels + l / o.width * panel_size + (group * o.width + l % o.width) * kGroup;
  };
  const int64_t padded = (lanes + 15) / 16 * 16;  // tiles are always full, although panels need not be
  for (int64_t l = lanes; l < padded; ++l) {
    for (int64_t c = 0; c * kElements < depth; ++c) std::fill_n(row(l, c), kGroup, 0.0f);
  }
  if (x.depth_major) {
    for (int64_t l = 0; l < lanes; ++l) {
      const BFloat16* from = src + (l0 + l) * x.ld + p0;
      int64_t c = 0;
      for (; (c + 1) * kElements <= depth; ++c) std::memcpy(row(l, c), from + c * kElements, 4 * kGroup);
      if (const int64_t rest = depth - c * kElements; rest > 0) {
        std::fill_n(row(l, c), kGroup, 0.0f);
        std::memcpy(row(l, c), from + c * kElements, static_cast<size_t>(2 * rest));
      }
    }
    return;
  }
  cpu::at_level([&]<int Lanes>() AMP_INLINE {
    alignas(64) float pairs[kGroup][16];
    for (int64_t c = 0; c * kElements < depth; ++c) {
      for (int64_t l = 0; l < lanes; l += 16) {
        const int64_t n = std::min<int64_t>(16, lanes - l), used = std::min(kElements, depth - c * kElements);
        for (int64_t p = 0; l % 32 == 0 && p < kElements; ++p)
          __builtin_prefetch(src + (p0 + std::min((c + 1) * kElements + p, depth - 1)) * x.ld + l0 + l);
        for (int64_t s = 0; 2 * s < used; ++s) {
          const BFloat16* low = src + (p0 + c * kElements + 2 * s) * x.ld + l0 + l;
          bf16_pairs::zip<Lanes>(low, 2 * s + 1 < used ? low + x.ld : nullptr, n, pairs[s]);
        }
        transpose_block<Lanes>(pairs[0], 16, (used + 1) / 2, 16,
                               [&](int64_t j) AMP_INLINE { return row(l, c) + j * kGroup; });
      }
    }
  });
}

template <class S>
void add_float(const PackSource& x, int64_t l0, int64_t lanes, int64_t p0, int64_t depth, float* sums) {
  for (int64_t l = 0; l < lanes; l += kStrip) {
    const int64_t n = std::min(kStrip, lanes - l);
    const S* row = static_cast<const S*>(x.data) + p0 * x.ld + l0 + l;
    alignas(64) float scratch[kStrip];
    for (int64_t p = 0; p < depth; ++p, row += x.ld) {
      const float* const from = as_float(row, n, scratch);
      simd([=, to = sums + l]() AMP_INLINE {
        for (int64_t i = 0; i < n; ++i) to[i] += from[i];
      });
    }
  }
}

}  // namespace

void add_lanes(const PackSource& x, int64_t l0, int64_t lanes, int64_t p0, int64_t depth, float* sums) {
  if (p0 == 0) std::fill_n(sums, lanes, 0.0f);
  switch (x.dtype) {
    case DType::f16:
      return add_float<Half>(x, l0, lanes, p0, depth, sums);
    case DType::bf16:
      return add_float<BFloat16>(x, l0, lanes, p0, depth, sums);
    default:
      return add_float<float>(x, l0, lanes, p0, depth, sums);
  }
}

void pack_panels(const PackSource& x, int64_t l0, int64_t lanes, int64_t p0, int64_t depth, const PanelLayout& o,
                 void* panels) {
  float* to = static_cast<float*>(panels);
  if (x.quantized) return pack_quantized(x, l0, lanes, p0, depth, o, to);
  if (o.by_rows) return pack_row_groups(x, l0, lanes, p0, depth, o, to);
  if (o.pairs) return pack_pairs(x, l0, lanes, p0, depth, o, to);
  switch (x.dtype) {
    case DType::f16:
      return pack_float<Half>(x, l0, lanes, p0, depth, o, to);
    case DType::bf16:
      return pack_float<BFloat16>(x, l0, lanes, p0, depth, o, to);
    default:
      return pack_float<float>(x, l0, lanes, p0, depth, o, to);
  }
}

}  // namespace amp::cpu
