// Histograms over the exponent bits of fp32. Multiplication by a power of two only shifts the bins, so one histogram is
// sufficient for all loss scales.
#include "precision/range.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace amp {

namespace {

constexpr int kBias = 127;

struct Format {
  int top;       // exponent of the type's largest number
  int bottom;    // exponent of the type's smallest normal number
  int fraction;  // number of bits after the leading 1
};
Format format_of(DType t) {
  return t == DType::f16 ? Format{15, -14, 10} : t == DType::bf16 ? Format{127, -126, 7} : Format{127, -126, 23};
}

int log2_of(double scale) { return static_cast<int>(std::lround(std::log2(scale))); }

}  // namespace

void ValueRange::add(const float* x, int64_t n) {
  float top = static_cast<float>(max_);
  for (int64_t i = 0; i < n; ++i) {
    uint32_t bits;
    std::memcpy(&bits, x + i, 4);
    const uint32_t exponent = (bits >> 23) & 0xff;
    ++bins_[exponent];
    if (exponent != 255) top = std::max(top, std::abs(x[i]));
  }
  max_ = top;
}

void ValueRange::merge(const ValueRange& other) {
  for (size_t i = 0; i < bins_.size(); ++i) bins_[i] += other.bins_[i];
  max_ = std::max(max_, other.max_);
}

int64_t ValueRange::count() const {
  int64_t n = 0;
  for (const int64_t b : bins_) n += b;
  return n;
}

int64_t ValueRange::beyond(DType low, int shift) const {
  int64_t n = 0;
  for (int b = 1; b < 256; ++b) {
    if (b == 255 || b - kBias + shift > format_of(low).top) n += bins_[static_cast<size_t>(b)];
  }
  // fp16's highest power-of-two interval ends at 65504, not at 65536, so the largest value is compared exactly.
  if (n == 0 && low == DType::f16 && std::ldexp(max_, shift) > kMaxHalf) n = 1;
  return n;
}

double ValueRange::overflow(DType low, double scale) const {
  const int64_t nonzero = count() - bins_[0];
  return nonzero ? static_cast<double>(beyond(low, log2_of(scale))) / static_cast<double>(nonzero) : 0;
}

double ValueRange::underflow(DType low, double scale) const {
  const Format f = format_of(low);
  const int64_t nonzero = count() - bins_[0];
  int64_t lost = 0;
  // Counts the values below half of the smallest subnormal number, which become 0.
  for (int b = 1; b < 255; ++b) {
    if (b - kBias + log2_of(scale) < f.bottom - f.fraction - 1) lost += bins_[static_cast<size_t>(b)];
  }
  return nonzero ? static_cast<double>(lost) / static_cast<double>(nonzero) : 0;
}

double ValueRange::rounding_error(DType low, double scale) const {
  const int shift = log2_of(scale);
  if (beyond(low, shift) > 0) return std::numeric_limits<double>::infinity();
  const Format f = format_of(low);
  constexpr double kMeanSquare = 3 / (2 * 0.6931471805599453);  // mean of x^2 for x in [1, 2) if log x is uniform
  double error = 0, total = 0;
  for (int b = 1; b < 255; ++b) {
    const auto n = static_cast<double>(bins_[static_cast<size_t>(b)]);
    const int e = b - kBias + shift;
    const double square = kMeanSquare * std::ldexp(1.0, 2 * e);
    const double unit = std::ldexp(1.0, std::max(e, f.bottom) - f.fraction);
    total += n * square;
    error += n * std::min(unit * unit / 12, square);
  }
  return total > 0 ? std::sqrt(error / total) : 0;
}

}  // namespace amp
