// The normal distribution's approximation (base/normal.h) against erf in fp64.
#include "base/normal.h"

#include <catch2/catch_all.hpp>
#include <cmath>

using namespace amp;

TEST_CASE("the normal distribution in fp32 is erf's in fp64", "[base]") {
  double cdf = 0, bell = 0, gelu = 0, gradient = 0;
  for (int i = -1200000; i <= 1200000; ++i) {
    const float x = static_cast<float>(i) * 1e-5f;
    const double d = static_cast<double>(x), e = std::exp(-0.5 * d * d), c = 0.5 * std::erfc(-d / std::sqrt(2.0));
    const math::Normal<float> n = math::normal(x);
    cdf = std::max(cdf, std::abs(static_cast<double>(n.cdf) - c));
    if (std::abs(d) < 6) bell = std::max(bell, std::abs(static_cast<double>(n.bell) - e) / e);
    gelu = std::max(gelu, std::abs(static_cast<double>(x * n.cdf) - d * c) / (1 + std::abs(d)));
    gradient = std::max(
        gradient, std::abs(static_cast<double>(n.cdf + x * 0.39894228f * n.bell) - (c + d * e / std::sqrt(2 * M_PI))));
  }
  CHECK(cdf < 2.5e-7);  // the formula's error is 1e-8; rounding near 1 causes the rest
  CHECK(bell < 2e-6);   // the exponent, up to 18 in magnitude, is rounded before exp()
  CHECK(gelu < 1.5e-7);
  CHECK(gradient < 3e-7);
}

TEST_CASE("the normal distribution far out, at infinity and of NaN", "[base]") {
  CHECK(math::normal(20.0f).cdf == 1.0f);
  CHECK(math::normal(-20.0f).cdf == 0.0f);
  CHECK(math::normal(INFINITY).cdf == 1.0f);
  CHECK(math::normal(-INFINITY).cdf == 0.0f);
  CHECK(std::isnan(math::normal(NAN).cdf));
  CHECK(math::normal(0.0f).cdf == Catch::Approx(0.5).epsilon(2e-7));
  // Must be accurate, so not computed as 1 - cdf(5).
  CHECK(math::normal(-5.0f).cdf == Catch::Approx(2.8665157e-7).epsilon(0.02));
}

TEST_CASE("GELU's factor and slope without a division are erf's in fp64", "[base]") {
  double cdf = 0, tail = 0, slope = 0;
  for (int i = -1200000; i <= 1200000; ++i) {
    const float x = static_cast<float>(i) * 1e-5f;
    const double d = static_cast<double>(x), e = std::exp(-0.5 * d * d), c = 0.5 * std::erfc(-d / std::sqrt(2.0));
    const double error = std::abs(static_cast<double>(math::normal_cdf(x)) - c);
    cdf = std::max(cdf, error);
    if (d < 0 && d > -6) tail = std::max(tail, error / c);
    slope = std::max(slope, std::abs(static_cast<double>(math::gelu_slope(x)) - (c + d * e / std::sqrt(2 * M_PI))));
  }
  CHECK(cdf < 1.5e-7);
  CHECK(tail < 5e-6);  // the logarithm, up to 30 in magnitude, is rounded
  CHECK(slope < 2.5e-7);
}

TEST_CASE("GELU's factor and slope far out and of NaN", "[base]") {
  for (const float x : {20.0f, 1e5f, 3e38f}) {
    CHECK(math::normal_cdf(x) == 1.0f);
    CHECK(math::gelu_slope(x) == 1.0f);
    CHECK(math::normal_cdf(-x) == 0.0f);
    CHECK(math::gelu_slope(-x) == 0.0f);
  }
  CHECK(math::normal_cdf(INFINITY) == 1.0f);
  CHECK(math::normal_cdf(-INFINITY) == 0.0f);
  CHECK(std::isnan(NAN * math::normal_cdf(NAN)));
  CHECK(std::isnan(math::gelu_slope(NAN)));
}
