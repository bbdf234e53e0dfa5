// Random elements, small shapes and broadcasting for the cases of core operators (op_cases.h), and the table of all
// cases, which op_cases_*.cc and op_shapes_*.cc fill.
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

const std::vector<Dims>& small_shapes() {
  static const std::vector<Dims> all = {{},
                                        {1},
                                        {0},
                                        {7},
                                        {16},
                                        {40},
                                        {3, 4},
                                        {1, 5},
                                        {5, 1},
                                        {0, 4},
                                        {3, 17},
                                        {2, 0, 3},
                                        {2, 3, 4},
                                        {2, 1, 4},
                                        {1, 1, 1},
                                        {4, 3, 1},
                                        {2, 3, 2, 2},
                                        {1, 2, 1, 3},
                                        {3, 1, 1, 2},
                                        {1, 1, 0, 1},
                                        {3, 1, 2, 1, 2},
                                        {2, 2, 2, 2, 2},
                                        {1, 1, 1, 1, 1},
                                        {2, 0, 1, 3, 1}};
  return all;
}

std::vector<size_t> axes_in_turn(const Dims& d, size_t k) {
  if (d.empty()) return {};
  const size_t axis = k % d.size(), last = d.size() - 1;
  return axis == last ? std::vector<size_t>{last} : std::vector<size_t>{axis, last};
}

std::pair<Dims, Dims> broadcasting(const Dims& s, size_t way) {
  Dims a = s, b = s;
  const auto ones = [](Dims& d, size_t parity) {
    for (size_t i = 0; i < d.size(); ++i) {
      if (i % 2 == parity) d[i] = 1;
    }
  };
  switch (way) {
    case 1:
      b = {};
      break;
    case 2:
      b.erase(b.begin(), b.begin() + static_cast<int64_t>(std::min<size_t>(1, b.size())));
      break;
    case 3:
      ones(b, 0);
      break;
    case 4:
      if (!b.empty()) b.back() = 1;
      break;
    case 5:
      ones(a, 1);
      ones(b, 0);
      break;
    default:
      break;
  }
  return {a, b};
}

const OpSpecs& op_specs() {
  static const OpSpecs specs = [] {
    OpSpecs s;
    add_elementwise_cases(s);
    add_tensor_cases(s);
    add_reduction_cases(s);
    add_spatial_cases(s);
    add_recurrent_cases(s);
    add_sampling_cases(s);
    add_region_cases(s);
    add_attention_cases(s);
    add_quantized_cases(s);
    add_moving_shapes(s);
    add_indexing_shapes(s);
    add_adding_shapes(s);
    return s;
  }();
  return specs;
}

}  // namespace amp::test
