// Helpers for row kernels, which process one row of the last dimension at a time, in fp32 or fp64, with any storage
// type.
#pragma once

#include "backend/elementwise.h"

namespace amp {

// Returns row i of t as T: in place if it has that type, otherwise converted into scratch (at least n elements).
template <class T>
const T* load_row(const Tensor& t, int64_t i, int64_t n, T* scratch) {
  return elementwise_detail::load<T>(t, i * n, n, scratch);
}

// Returns the buffer in which to compute row i of t: the row itself if its type is T, otherwise scratch, which
// store_row() writes to t.
template <class T>
T* row_buffer(const Tensor& t, int64_t i, int64_t n, T* scratch) {
  return t.dtype == DTypeOf<T>::value ? static_cast<T*>(t.data) + i * n : scratch;
}
template <class T>
void store_row(const T* row, const Tensor& t, int64_t i, int64_t n) {
  if (t.dtype != DTypeOf<T>::value)
    convert(DTypeOf<T>::value, row, t.dtype, static_cast<char*>(t.data) + i * n * size_of(t.dtype), n);
}

// Returns scratch of the calling thread: buffer `which` of four. The buffer grows when a longer row is requested and
// stays allocated, so later training steps do not allocate.
template <class T>
T* thread_scratch(int64_t n, int which) {
  thread_local std::vector<T> buffers[4];
  std::vector<T>& b = buffers[which];
  if (static_cast<int64_t>(b.size()) < n) b.resize(static_cast<size_t>(n));
  return b.data();
}

// Sums f(i) over [0, n) in 16 accumulators, which are added in a fixed tree. The loop can be vectorized, and the sum
// has the same bits on every machine.
template <class T, class F>
AMP_INLINE inline T lane_sum(int64_t n, F f) {
  T lane[16] = {};
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    for (int j = 0; j < 16; ++j) lane[j] += f(i + j);
  }
  for (; i < n; ++i) lane[0] += f(i);
  for (int w = 8; w > 0; w /= 2) {
    for (int j = 0; j < w; ++j) lane[j] += lane[j + w];
  }
  return lane[0];
}

template <class T>
AMP_INLINE inline T row_max(const T* x, int64_t n) {
  T lane[16];
  for (int j = 0; j < 16; ++j) lane[j] = x[0];
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    for (int j = 0; j < 16; ++j) lane[j] = x[i + j] > lane[j] ? x[i + j] : lane[j];
  }
  for (; i < n; ++i) lane[0] = x[i] > lane[0] ? x[i] : lane[0];
  T m = lane[0];
  for (int j = 1; j < 16; ++j) m = lane[j] > m ? lane[j] : m;
  return m;
}

}  // namespace amp
