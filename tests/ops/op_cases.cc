#include "tests/ops/op_cases.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace amp::test {

double uniform01(Rng& rng) { return static_cast<double>(rng() >> 11) * 0x1p-53; }

namespace {
int64_t below(Rng& rng, int64_t n) { return static_cast<int64_t>(rng() % static_cast<uint64_t>(n)); }

std::vector<int64_t> shuffled(int64_t n, Rng& rng) {
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), int64_t{0});
  for (size_t i = order.size(); i > 1; --i)
    std::swap(order[i - 1], order[static_cast<size_t>(below(rng, static_cast<int64_t>(i)))]);
  return order;
}

Draw each(std::function<double(Rng&)> element) {
  return [element](int64_t n, Rng& rng) {
    std::vector<double> v(static_cast<size_t>(n));
    for (double& x : v) x = element(rng);
    return v;
  };
}
}  // namespace

Draw uniform(double lo, double hi, std::vector<double> avoid, double gap) {
  return each([=](Rng& rng) {
    for (;;) {
      const double x = lo + (hi - lo) * uniform01(rng);
      if (std::none_of(avoid.begin(), avoid.end(), [&](double a) { return std::abs(x - a) < gap; })) return x;
    }
  });
}

Draw lattice(double step, double phase) {
  const auto half = static_cast<int64_t>(2 / step);
  return each([=](Rng& rng) { return (static_cast<double>(below(rng, 2 * half + 1) - half) + phase) * step; });
}

Draw distinct(double step) {
  return [step](int64_t n, Rng& rng) {
    std::vector<double> v;
    for (const int64_t k : shuffled(n, rng)) v.push_back(static_cast<double>(2 * k - n) / 2 * step);
    return v;
  };
}

Draw integers(int64_t lo, int64_t hi) {
  return each([=](Rng& rng) { return static_cast<double>(lo + below(rng, hi - lo + 1)); });
}

Draw some_of(int64_t n) {
  return [n](int64_t count, Rng& rng) {
    std::vector<double> v;
    for (const int64_t k : shuffled(n, rng)) v.push_back(static_cast<double>(k));
    v.resize(static_cast<size_t>(count));
    return v;
  };
}

Draw coin() { return integers(0, 1); }

const OpSpecs& op_specs() {
  static const OpSpecs specs = [] {
    OpSpecs s;
    add_elementwise_cases(s);
    add_tensor_cases(s);
    add_reduction_cases(s);
    add_spatial_cases(s);
    add_recurrent_cases(s);
    add_sampling_cases(s);
    return s;
  }();
  return specs;
}

}  // namespace amp::test
