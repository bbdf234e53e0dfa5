// The random bits of Dropout, for its own kernels and for kernels that include dropout (defined in ops/dropout.cc).
#pragma once

#include <algorithm>

#include "backend/kernel.h"
#include "base/philox.h"

// <functors>: fused kernels are generated from this text (cmake/functors.cmake)
namespace amp {

// Returns four random words for elements 4 * group to 4 * group + 3 of sample `row` of the micro-batch. State is
// RunState (in generated kernels their own copy of it).
template <class State>
HD PhiloxBlock dropout_words(const State& s, int64_t row, int64_t group, uint32_t site) {
  return philox4x32({{static_cast<uint32_t>(group), static_cast<uint32_t>(s.samples_before + row),
                      static_cast<uint32_t>(s.step), site}},
                    static_cast<uint32_t>(s.seed), static_cast<uint32_t>(s.seed >> 32));
}
template <class T>
HD T drop(T x, uint32_t word, uint32_t threshold, T scale) {
  return word < threshold ? T(0) : x * scale;
}

}  // namespace amp
// </functors>

namespace amp {

struct DropoutBits {
  uint32_t threshold = 0, site = 0;
  double scale = 1;  // factor of kept elements
  explicit operator bool() const { return threshold != 0; }
};

// Reads the attributes ratio and site; a node without ratio drops nothing.
inline DropoutBits dropout_bits(const Attrs& a) {
  const double ratio = a.f("ratio", 0);
  return {static_cast<uint32_t>(ratio * 4294967296.0), static_cast<uint32_t>(a.i("site", 0)), 1.0 / (1.0 - ratio)};
}

// Writes the factors of elements first .. first + n - 1 of sample `row` of the micro-batch: 0 or bits.scale.
template <class T>
void dropout_factors(const DropoutBits& bits, const RunState& state, int64_t row, int64_t first, int64_t n, T* factor) {
  const T keep = static_cast<T>(bits.scale);
  for (int64_t i = 0; i < n;) {
    const int64_t k = first + i;
    const PhiloxBlock block = dropout_words(state, row, k / 4, bits.site);
    for (int64_t lane = k % 4; lane < 4 && i < n; ++lane, ++i) factor[i] = block.v[lane] < bits.threshold ? T(0) : keep;
  }
}
// A vectorized version for fp32 (ops/dropout.cc) with equal results.
void dropout_factors(const DropoutBits& bits, const RunState& state, int64_t row, int64_t first, int64_t n,
                     float* factor);

// Dropout of a tensor with n elements. A row is the elements of one sample; the attribute `rows` counts samples.
struct DropoutShape {
  DropoutShape(const Attrs& a, int64_t n)
      : bits(dropout_bits(a)), rows(n % a.i("rows", 1) == 0 ? a.i("rows", 1) : 1), per_row(n / rows) {}
  DropoutBits bits;
  int64_t rows, per_row;
};

// Applies dropout to elements at .. at + n - 1 of the tensor, from x to y.
template <class T>
void dropout_span(const DropoutShape& d, const RunState& state, int64_t at, int64_t n, const T* x, T* y) {
  for (int64_t i = 0; i < n;) {
    const int64_t row = (at + i) / d.per_row, end = std::min(n, (row + 1) * d.per_row - at);
    dropout_factors(d.bits, state, row, at + i - row * d.per_row, end - i, y + i);
    for (; i < end; ++i) y[i] = y[i] == T(0) ? T(0) : x[i] * y[i];
  }
}

}  // namespace amp
