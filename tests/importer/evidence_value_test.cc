// Tests the evidence that a tensor's values give on whether the tensor is a weight.
#include <catch2/catch_all.hpp>
#include <cmath>
#include <vector>

#include "importer/discover/evidence.h"
#include "tests/importer/values.h"

using namespace amp;
using namespace amp::test;

TEST_CASE("values are told by their look", "[weights]") {
  const auto weight = [](Dims dims, const std::vector<double>& v, Naming naming = Naming::made_up) {
    double sum = 0;
    for (const Evidence& e :
         value_evidence(HostTensor::of<double>(std::move(dims), v).cast(DType::f32), naming, {true}))
      sum += e.weight;
    return sum;
  };
  const auto made = [](int64_t n, double (*f)(int64_t)) {
    std::vector<double> v;
    for (int64_t i = 0; i < n; ++i) v.push_back(f(i));
    return v;
  };
  CHECK(weight({8, 8}, made(64, learned)) > 0);
  CHECK(weight({64}, made(64, learned), Naming::module) >= 0);
  CHECK(weight({1, 1, 8, 8}, made(64, sinusoid)) <= -7);
  CHECK(weight({8}, made(8, [](int64_t i) { return 0.5 * static_cast<double>(i); })) < 0);
  CHECK(weight({8}, made(8, [](int64_t i) { return std::pow(10000.0, -static_cast<double>(i) / 8); })) < 0);
  CHECK(weight({4, 4}, made(16, [](int64_t i) { return i % 5 == 0 ? 1.0 : 0.0; })) < 0);
  CHECK(weight({16, 2}, made(32, [](int64_t i) {
                 return i % 2 ? 0.3 * static_cast<double>(i / 2 % 4) : 0.7 * static_cast<double>(i / 8);
               })) < 0);
  CHECK(weight({2, 2}, {0, -100, -100, 0}) <= -8);
  CHECK(weight({5}, {0, 0, 0, 0, 0}) < 0);
  CHECK(weight({5}, {0, 0, 0, 0, 0}, Naming::module) == 0);
  CHECK(weight({4}, {1, 2, 3, 4}, Naming::none) > -2);
  CHECK(weight({1}, {std::pow(8.0, -0.25)}, Naming::folded) <= -8);
  CHECK(weight({1}, {0.80519336}, Naming::folded) == 0);
  CHECK(weight({2, 3, 4}, std::vector<double>(24, 0), Naming::folded) <= -9);
  CHECK(weight({1, 3, 4}, std::vector<double>(12, 0), Naming::folded) > -3);
}
