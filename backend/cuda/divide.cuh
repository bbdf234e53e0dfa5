// Divisor divides by a number that is fixed before the launch. This takes a multiplication and a shift if the dividend
// is below 2^31, as it is for nearly every tensor. (Granlund and Montgomery, Division by invariant integers using
// multiplication, 1994.)
#pragma once

#include "backend/cuda/thread.cuh"

namespace amp::cuda {

class Divisor {
 public:
  Divisor() = default;
  explicit Divisor(int64_t d) : d_(d) {
    if (!small(d)) return;
    while ((int64_t{1} << shift_) < d) ++shift_;
    magic_ = static_cast<uint32_t>(((int64_t{1} << 32) * ((int64_t{1} << shift_) - d)) / d + 1);
  }

  HD int64_t value() const { return d_; }
  // Returns n / d for n >= 0.
  DEV int64_t operator()(int64_t n) const {
    if (!small(n) || !small(d_)) return n / d_;
    const uint32_t u = static_cast<uint32_t>(n);
    return (static_cast<uint32_t>((static_cast<uint64_t>(u) * magic_) >> 32) + u) >> shift_;
  }
  // Sets n to n / d and returns the remainder.
  DEV int64_t take(int64_t& n) const {
    const int64_t q = (*this)(n), r = n - q * d_;
    n = q;
    return r;
  }

 private:
  HD static bool small(int64_t n) { return n <= 0x7fffffff; }

  int64_t d_ = 1;
  uint32_t magic_ = 1;
  int shift_ = 0;
};

}  // namespace amp::cuda
