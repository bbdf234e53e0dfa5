// Bounds of constants: each type, and elements that are not finite. Padding removal relies on them.
#include "ops/passes/value_bounds.h"

#include <catch2/catch_all.hpp>
#include <cmath>

using namespace amp;

namespace {

constexpr double kInf = Bounds::kInf;
const float kNan = std::nanf("");
const float kInfinity = static_cast<float>(kInf);

template <class T>
Bounds bounds_of(const std::vector<T>& values) {
  return bounds_of_constant(HostTensor::of<T>({static_cast<int64_t>(values.size())}, values));
}

void require_between(const Bounds& b, double lo, double hi) {
  REQUIRE(b.finite);
  REQUIRE_FALSE(b.below);
  REQUIRE(b.lo == lo);
  REQUIRE(b.hi == hi);
}

}  // namespace

TEST_CASE("bounds of a constant are its least and largest element", "[ops]") {
  require_between(bounds_of<uint8_t>({7, 255, 0, 3}), 0, 255);
  require_between(bounds_of<int8_t>({7, -128, 127}), -128, 127);
  require_between(bounds_of<int32_t>({-5, -4}), -5, -4);
  require_between(bounds_of<int64_t>({int64_t{1} << 40, -1}), -1, std::ldexp(1, 40));
  require_between(bounds_of<uint64_t>({uint64_t{1} << 63, 1}), 1, std::ldexp(1, 63));
  require_between(bounds_of<float>({-0.5F, 3, -2, 0}), -2, 3);
  require_between(bounds_of<float>({-3, -2}), -3, -2);
  require_between(bounds_of<float>({2, 3}), 2, 3);
  require_between(bounds_of<float>({3.4028235e38F, -3.4028235e38F}), -3.4028234663852886e38, 3.4028234663852886e38);
  require_between(bounds_of<double>({1e300, -1e300}), -1e300, 1e300);
  require_between(bounds_of<Half>({Half(1.5F), Half(-4)}), -4, 1.5);
  require_between(bounds_of<BFloat16>({BFloat16(1.5F), BFloat16(-4)}), -4, 1.5);
  require_between(bounds_of_constant(HostTensor::empty(DType::boolean, {0})), 0, 0);
  std::vector<float> large((1 << 20) + 3, 1);
  large.back() = -7;
  require_between(bounds_of(large), -7, 1);
}

TEST_CASE("bounds of a constant with NaN or infinity say so", "[ops]") {
  for (const float bad : {kNan, -kNan, kInfinity}) {
    for (const std::vector<float>& values : {std::vector<float>{bad, 1}, {1, -1, bad}}) {
      REQUIRE_FALSE(bounds_of(values).finite);
      REQUIRE_FALSE(bounds_of(values).below);
      REQUIRE_FALSE(bounds_of<double>({values.begin(), values.end()}).finite);
    }
  }
  std::vector<float> mask(3000, 0);
  mask[2999] = -kInfinity;
  const Bounds b = bounds_of(mask);
  REQUIRE_FALSE(b.finite);
  REQUIRE(b.below);
  REQUIRE(b.lo == -kInf);
  REQUIRE(b.hi == 0);
  std::vector<Half> half(3000, Half(0));
  half[1500] = Half(-kInfinity);
  REQUIRE(bounds_of(half).below);
}
