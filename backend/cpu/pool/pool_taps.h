// The taps that a max pool stores for its gradient, and their offsets in the input.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "backend/kernel.h"
#include "backend/sliding_window.h"
#include "base/simd.h"

namespace amp {

// A tensor of taps. Taps are bytes if a window has at most 256 taps (as in pool_pairs.h), otherwise int32.
struct Taps {
  explicit Taps(const Tensor& t) : bytes(t.dtype == DType::u8), data_(t.data) {}
  uint8_t* narrow() const { return static_cast<uint8_t*>(data_); }
  int32_t* wide() const { return static_cast<int32_t*>(data_); }
  AMP_INLINE void store(const int32_t* from, int64_t at, int64_t n) const {
    if (bytes)
      for (int64_t j = 0; j < n; ++j) narrow()[at + j] = static_cast<uint8_t>(from[j]);
    else
      std::copy_n(from, n, wide() + at);
  }
  bool bytes;

 private:
  void* data_;
};

// Returns the offset in the input plane of each tap from the first element of a window.
inline std::vector<int64_t> tap_offsets(const SlidingWindow& w) {
  std::vector<int64_t> v;
  for (int64_t kd = 0; kd < w[0].kernel; ++kd) {
    for (int64_t kh = 0; kh < w[1].kernel; ++kh) {
      for (int64_t kw = 0; kw < w[2].kernel; ++kw)
        v.push_back((kd * w[0].dilation * w[1].in + kh * w[1].dilation) * w[2].in + kw * w[2].dilation);
    }
  }
  return v;
}

template <class Tap, class Fn>
AMP_INLINE inline void choices(const SlidingWindow& w, const std::vector<int64_t>& offsets, const Tap* taps, Fn&& fn) {
  const int64_t* const offset = offsets.data();
  const auto n_taps = static_cast<int64_t>(offsets.size());
  int64_t o = 0;
  for (int64_t od = 0; od < w[0].out; ++od) {
    for (int64_t oh = 0; oh < w[1].out; ++oh) {
      const int64_t base = (w[0].at(od, 0) * w[1].in + w[1].at(oh, 0)) * w[2].in - w[2].pad;
      for (int64_t ow = 0; ow < w[2].out; ++ow, ++o) {
        const auto t = static_cast<int64_t>(taps[o]);
        fn(o, base + ow * w[2].stride + (t >= 0 && t < n_taps ? offset[t] : 0));
      }
    }
  }
}

// Calls fn(output, input) with the flat positions of every output of a plane and of the input that it selected. The
// plane's taps start at `first`.
template <class Fn>
AMP_INLINE inline void each_choice(const SlidingWindow& w, const std::vector<int64_t>& offsets, const Taps& taps,
                                   int64_t first, Fn&& fn) {
  if (taps.bytes) {
    choices(w, offsets, taps.narrow() + first, fn);
  } else {
    choices(w, offsets, taps.wide() + first, fn);
  }
}

}  // namespace amp
