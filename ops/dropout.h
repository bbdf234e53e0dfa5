// The bits of Dropout, for kernels that drop elements of what they compute themselves (ops/dropout.cc says what they are).
#pragma once

#include <algorithm>

#include "backend/kernel.h"
#include "base/philox.h"

namespace amp {

struct DropoutBits {
  uint32_t threshold = 0, site = 0;
  double scale = 1;  // of what stays
  explicit operator bool() const { return threshold != 0; }
};

// Attributes ratio and site; a node without ratio drops nothing.
inline DropoutBits dropout_bits(const Attrs& a) {
  const double ratio = a.f("ratio", 0);
  return {static_cast<uint32_t>(ratio * 4294967296.0), static_cast<uint32_t>(a.i("site", 0)), 1.0 / (1.0 - ratio)};
}

// What elements first .. first + n of sample `row` (of the micro-batch) are multiplied by: 0 or bits.scale.
template <class T>
void dropout_factors(const DropoutBits& bits, const RunState& state, int64_t row, int64_t first, int64_t n, T* factor) {
  const T keep = static_cast<T>(bits.scale);
  const auto sample = static_cast<uint32_t>(state.samples_before + row);
  for (int64_t i = 0; i < n;) {
    const int64_t k = first + i;
    const PhiloxBlock block = philox4x32({{static_cast<uint32_t>(k / 4), sample, static_cast<uint32_t>(state.step), bits.site}},
                                         static_cast<uint32_t>(state.seed), static_cast<uint32_t>(state.seed >> 32));
    for (int64_t lane = k % 4; lane < 4 && i < n; ++lane, ++i) factor[i] = block.v[lane] < bits.threshold ? T(0) : keep;
  }
}

}  // namespace amp
