#include "backend/cpu/pack.h"

#include <algorithm>

#include "base/simd.h"

namespace amp::cpu {
namespace {

constexpr int64_t kStrip = 512;  // elements converted at a time

const float* as_float(const float* x, int64_t, float*) { return x; }
template <class S>
const float* as_float(const S* x, int64_t n, float* scratch) {
  to_float(x, scratch, n);
  return scratch;
}

template <class S>
void pack_float(const PackSource& x, int64_t l0, int lanes, int width, int64_t p0, int64_t depth, float* panel) {
  float scratch[kStrip];
  const S* src = static_cast<const S*>(x.data);
  if (!x.depth_major) {
    for (int64_t p = 0; p < depth; ++p) {
      const float* row = as_float(src + (p0 + p) * x.ld + l0, lanes, scratch);
      float* to = panel + p * width;
      std::copy(row, row + lanes, to);
      std::fill(to + lanes, to + width, 0.0f);
    }
    return;
  }
  for (int l = 0; l < width; ++l) {
    if (l >= lanes) {
      for (int64_t p = 0; p < depth; ++p) panel[p * width + l] = 0;
      continue;
    }
    for (int64_t at = 0; at < depth; at += kStrip) {
      const int64_t n = std::min(kStrip, depth - at);
      const float* run = as_float(src + (l0 + l) * x.ld + p0 + at, n, scratch);
      float* to = panel + at * width + l;
      for (int64_t p = 0; p < n; ++p) to[p * width] = run[p];
    }
  }
}

uint32_t pair(uint16_t low, uint16_t high) { return low | static_cast<uint32_t>(high) << 16; }

void pack_pairs(const PackSource& x, int64_t l0, int lanes, int width, int64_t p0, int64_t depth, uint32_t* panel) {
  const uint16_t* src = static_cast<const uint16_t*>(x.data);
  const int64_t whole = depth / 2;
  if (!x.depth_major) {
    simd([=]() AMP_INLINE {
      for (int64_t p = 0; p < whole; ++p) {
        const uint16_t *low = src + (p0 + 2 * p) * x.ld + l0, *high = low + x.ld;
        uint32_t* to = panel + p * width;
        for (int l = 0; l < lanes; ++l) to[l] = low[l] | static_cast<uint32_t>(high[l]) << 16;
        for (int l = lanes; l < width; ++l) to[l] = 0;
      }
    });
  } else {
    for (int l = 0; l < width; ++l) {
      uint32_t* to = panel + l;
      const uint16_t* run = src + (l0 + l) * x.ld + p0;
      for (int64_t p = 0; p < whole; ++p) {
        uint32_t both = 0;
        if (l < lanes) std::memcpy(&both, run + 2 * p, 4);
        to[p * width] = both;
      }
    }
  }
  if (depth % 2 == 0) return;
  for (int l = 0; l < width; ++l) {
    const int64_t p = p0 + depth - 1;
    const int64_t at = x.depth_major ? (l0 + l) * x.ld + p : p * x.ld + l0 + l;
    panel[whole * width + l] = l < lanes ? pair(src[at], 0) : 0;
  }
}

}  // namespace

void pack_panel(const PackSource& x, int64_t l0, int lanes, int width, int64_t p0, int64_t depth, bool pairs,
                void* panel) {
  if (pairs) return pack_pairs(x, l0, lanes, width, p0, depth, static_cast<uint32_t*>(panel));
  float* to = static_cast<float*>(panel);
  switch (x.dtype) {
    case DType::f16:
      return pack_float<Half>(x, l0, lanes, width, p0, depth, to);
    case DType::bf16:
      return pack_float<BFloat16>(x, l0, lanes, width, p0, depth, to);
    default:
      return pack_float<float>(x, l0, lanes, width, p0, depth, to);
  }
}

}  // namespace amp::cpu
