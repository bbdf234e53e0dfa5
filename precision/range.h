// A histogram of the magnitudes of tensor elements by power of two. It predicts the effect of a 16-bit type at any
// loss scale without storing the elements.
#pragma once

#include <array>
#include <cstdint>

#include "base/dtype.h"

namespace amp {

constexpr double kMaxHalf = 65504;  // fp16's largest finite number

class ValueRange {
 public:
  void add(const float* x, int64_t n);
  void merge(const ValueRange& other);

  int64_t count() const;               // number of elements
  double max() const { return max_; }  // largest magnitude of the finite elements
  int64_t nonfinite() const { return bins_[255]; }
  // Return a fraction of the nonzero elements after multiplication by `scale`, a power of two. overflow(): the elements
  // beyond `low`'s largest number, with a resolution of one power of two. underflow(): those that `low` rounds to 0.
  double overflow(DType low, double scale = 1) const;
  double underflow(DType low, double scale = 1) const;
  // Returns the expected relative error, in the 2-norm, of storing scale * x in `low`: it includes rounding, lost bits
  // of subnormal numbers and elements that become 0. Logarithms of elements are assumed to be uniform within each power
  // of two. The result is infinity if any element overflows, and 0 without elements.
  double rounding_error(DType low, double scale = 1) const;

 private:
  int64_t beyond(DType low, int shift) const;
  // Number of elements by the biased exponent of their fp32 value. Bin 0: zero or below 2^-126; bin 255: not finite.
  std::array<int64_t, 256> bins_{};
  double max_ = 0;
};

}  // namespace amp
