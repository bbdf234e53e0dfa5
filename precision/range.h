// How large the elements of tensors are, as counts by power of two: enough to say what a 16-bit type would do to them
// at any loss scale, without keeping them.
#pragma once

#include <array>
#include <cstdint>

#include "base/dtype.h"

namespace amp {

constexpr double kMaxHalf = 65504;  // fp16's largest number

class ValueRange {
 public:
  void add(const float* x, int64_t n);
  void merge(const ValueRange& other);

  int64_t count() const;               // elements seen
  double max() const { return max_; }  // largest finite magnitude
  int64_t nonfinite() const { return bins_[255]; }
  // Shares of the elements that are not 0, at a scale that is a power of two: of those beyond `low`'s largest number,
  // to one power of two, and of those that it would round to 0.
  double overflow(DType low, double scale = 1) const;
  double underflow(DType low, double scale = 1) const;
  // The expected error of storing scale * x in `low`, relative in the 2-norm: rounding, lost low bits of subnormal
  // numbers and what becomes 0, elements taken as spread evenly between powers of two. Infinity when anything
  // overflows; 0 when nothing was seen.
  double rounding_error(DType low, double scale = 1) const;

 private:
  int64_t beyond(DType low, int shift) const;
  std::array<int64_t, 256>
      bins_{};  // by the biased exponent of an IEEE float; 0: zero (or below 2^-126), 255: not finite
  double max_ = 0;
};

}  // namespace amp
