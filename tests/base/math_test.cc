// The gate of GELU's tanh form (base/math.h) against fp64.
#include "base/math.h"

#include <catch2/catch_all.hpp>
#include <cmath>

using namespace amp;

TEST_CASE("a gate in fp32 is the logistic function's in fp64", "[base]") {
  double relative = 0;
  for (int i = -800000; i <= 800000; ++i) {
    const float x = static_cast<float>(i) * 1e-4f;
    const double exact = 1 / (1 + std::exp(-static_cast<double>(x)));
    relative = std::max(relative, std::abs(static_cast<double>(math::gate(x)) - exact) / exact);
  }
  CHECK(relative < 3e-7);  // the exponential has an error of 2e-7; two roundings follow
}

TEST_CASE("GELU's tanh form by its gate keeps the digits of its tail", "[base]") {
  double tail = 0, whole = 0;
  for (int i = -90000; i <= 90000; ++i) {
    const float x = static_cast<float>(i) * 1e-4f;
    const double d = static_cast<double>(x), u = 0.79788456080286536 * (d + 0.044715 * d * d * d);
    const double exact = d / (1 + std::exp(-2 * u));  // equals x/2 (1 + tanh u), but without cancellation
    const double y = static_cast<double>(x * math::gate(1.5957691216057308f * (x + 0.044715f * x * x * x)));
    whole = std::max(whole, std::abs(y - exact) / (1 + std::abs(d)));
    if (d < 0 && exact < -1e-30) tail = std::max(tail, std::abs(y - exact) / -exact / (1 + 2 * std::abs(u)));
  }
  CHECK(whole < 1.5e-7);
  CHECK(tail < 3e-7);  // relative; mostly the rounding of the exponent 2 u, which grows with u
}

TEST_CASE("a gate far out, at infinity and of NaN", "[base]") {
  CHECK(math::gate(100.0f) == 1.0f);
  CHECK(math::gate(-200.0f) == 0.0f);
  CHECK(math::gate(INFINITY) == 1.0f);
  CHECK(math::gate(-INFINITY) == 0.0f);
  CHECK(std::isnan(math::gate(NAN)));
  CHECK(math::gate(0.0f) == 0.5f);
}
