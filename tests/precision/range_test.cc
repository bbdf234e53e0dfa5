#include "precision/range.h"

#include <catch2/catch_all.hpp>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "base/dtype.h"

using namespace amp;

namespace {

ValueRange range_of(const std::vector<float>& x) {
  ValueRange r;
  r.add(x.data(), static_cast<int64_t>(x.size()));
  return r;
}

}  // namespace

TEST_CASE("a range counts what 16 bits cannot hold, at any scale") {
  const ValueRange r = range_of({0, 1, -70000, 0x1p-26f, -0x1p-24f, 0x1p-25f});
  CHECK(r.count() == 6);
  CHECK(r.max() == 70000);
  CHECK(r.overflow(DType::f16) == Catch::Approx(0.2));
  CHECK(r.overflow(DType::bf16) == 0);
  // One of five nonzero values becomes 0: 2^-26. The binade of 2^-25 still rounds to fp16's smallest number, 2^-24.
  CHECK(r.underflow(DType::f16) == Catch::Approx(0.2));
  CHECK(r.underflow(DType::f16, 0.5) == Catch::Approx(0.4));
  CHECK(r.underflow(DType::f16, 4) == 0);
  CHECK(r.underflow(DType::bf16) == 0);
  CHECK(std::isinf(r.rounding_error(DType::f16)));
  CHECK(r.rounding_error(DType::f32) < 1e-7);
  // Between 65504 and 65536 the exponent alone does not decide: numbers from 65520 on are rounded to infinity.
  CHECK(range_of({65504}).overflow(DType::f16) == 0);
  CHECK(range_of({65520}).overflow(DType::f16) == 1);
  CHECK(std::isinf(range_of({40000}).rounding_error(DType::f16, 2)));
}

TEST_CASE("merging adds, and what is not finite is counted apart from the maximum") {
  ValueRange r = range_of({1, 2});
  r.merge(range_of({std::numeric_limits<float>::infinity(), std::nanf(""), -8}));
  CHECK(r.count() == 5);
  CHECK(r.nonfinite() == 2);
  CHECK(r.max() == 8);
  CHECK(ValueRange().rounding_error(DType::f16) == 0);
}

TEST_CASE("the expected error is the one that conversion makes") {
  std::mt19937 random(7);
  const double spread = GENERATE(0.0, -8.0, -16.0, -20.0, -24.0, -30.0);
  const DType low = GENERATE(DType::f16, DType::bf16);
  // Log-normal magnitudes around 2^spread: many binades, part of them subnormal or lost in fp16.
  std::normal_distribution<double> exponent(spread, 2), sign(0, 1);
  std::vector<float> x(200000);
  for (float& v : x) v = static_cast<float>(std::copysign(std::exp2(exponent(random)), sign(random)));
  const ValueRange r = range_of(x);
  double error = 0, norm = 0;
  for (const float v : x) {
    const double rounded = low == DType::f16 ? Half::decode(Half::encode(v)) : BFloat16::decode(BFloat16::encode(v));
    error += (rounded - v) * (rounded - v);
    norm += static_cast<double>(v) * v;
  }
  const double actual = std::sqrt(error / norm);
  INFO("spread " << spread << ' ' << name_of(low) << ": " << actual);
  CHECK(r.rounding_error(low) == Catch::Approx(actual).epsilon(0.25));
}
