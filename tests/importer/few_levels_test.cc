// Tests weights that a compressor rounded to few levels. Their values repeat as in constant filters, but in random
// order. The levels are computed as compressors compute them.
#include <algorithm>
#include <catch2/catch_all.hpp>
#include <cmath>
#include <vector>

#include "importer/discover/arrangement.h"
#include "importer/discover/evidence.h"
#include "importer/discover/fixed_pattern.h"
#include "importer/discover/formula.h"

using namespace amp;

namespace {

using Values = std::vector<double>;

HostTensor tensor(Dims dims, const Values& v) { return HostTensor::of<double>(std::move(dims), v).cast(DType::f32); }

// Returns a pseudo-random number between -0.7 and 0.7 (splitmix64 of i). A sine is not used, because its signs repeat.
double drawn_value(int64_t i) {
  uint64_t z = (static_cast<uint64_t>(i) + 1) * 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return static_cast<double>((z ^ (z >> 31)) >> 11) / 9007199254740992.0 * 1.4 - 0.7;
}

template <class Formula>
Values made(int64_t n, const Formula& f) {
  Values v;
  for (int64_t i = 0; i < n; ++i) v.push_back(f(i));
  return v;
}

// Divides the values into `levels` quantiles, and rounds each value to the mean of its quantile.
Values palette(Values v, size_t levels) {
  Values sorted = v;
  std::sort(sorted.begin(), sorted.end());
  for (double& x : v) {
    const auto rank = static_cast<size_t>(std::lower_bound(sorted.begin(), sorted.end(), x) - sorted.begin());
    const size_t level = rank * levels / sorted.size();
    const size_t from = level * sorted.size() / levels, to = (level + 1) * sorted.size() / levels;
    double sum = 0;
    for (size_t i = from; i < to; ++i) sum += sorted[i];
    x = sum / static_cast<double>(to - from);
  }
  return v;
}

// Rounds to integers from -7 to 7, with a scale per `group` elements.
Values four_bits(Values v, size_t group) {
  for (size_t g = 0; g < v.size(); g += group) {
    double most = 0;
    for (size_t i = g; i < g + group; ++i) most = std::max(most, std::fabs(v[i]));
    for (size_t i = g; i < g + group; ++i) v[i] = std::round(v[i] / most * 7) * most / 7;
  }
  return v;
}

// Rounds to -1, 0 or 1 times a scale per `line` elements. Without zeros the weights are binary.
Values ternary(Values v, size_t line, bool zeros) {
  for (size_t g = 0; g < v.size(); g += line) {
    double mean = 0;
    for (size_t i = g; i < g + line; ++i) mean += std::fabs(v[i]) / static_cast<double>(line);
    for (size_t i = g; i < g + line; ++i) v[i] = zeros && std::fabs(v[i]) < 0.5 * mean ? 0 : std::copysign(mean, v[i]);
  }
  return v;
}

double sum_of(const HostTensor& t, Naming naming) {
  double sum = 0;
  for (const Evidence& e : value_evidence(t, naming, {false, true, false, false, true})) sum += e.weight;
  return sum;
}

}  // namespace

TEST_CASE("weights of few levels are no filters", "[weights]") {
  struct Case {
    const char* what;
    Dims dims;
    Values values;
  };
  const auto drawn = [](int64_t n) { return made(n, drawn_value); };
  const std::vector<Case> cases = {
      {"palette of 16", {24, 16}, palette(drawn(384), 16)},
      {"palette of 4, small", {8, 8}, palette(drawn(64), 4)},
      {"palette of 256", {64, 64}, palette(drawn(4096), 256)},
      {"kernels of a palette", {16, 8, 3, 3}, palette(drawn(1152), 16)},
      {"4 bits by rows", {16, 32}, four_bits(drawn(512), 32)},
      {"4 bits in small groups", {32, 32}, four_bits(drawn(1024), 16)},
      {"4 bits as a whole", {16, 16}, four_bits(drawn(256), 256)},
      {"int8", {64, 64}, made(4096, [](int64_t i) { return std::round(drawn_value(i) / 0.7 * 127) * 0.00531; })},
      {"ternary", {32, 32}, ternary(drawn(1024), 1024, true)},
      {"ternary by rows", {32, 32}, ternary(drawn(1024), 32, true)},
      {"binary by rows", {32, 32}, ternary(drawn(1024), 32, false)},
      {"binary as a whole", {32, 32}, ternary(drawn(1024), 1024, false)},
      {"16 bits", {64, 64}, made(4096, [](int64_t i) { return std::round(drawn_value(i) * 1024) / 1024 * 0.731; })},
      {"a vector", {64}, palette(drawn(64), 16)},
  };
  for (const Case& c : cases) {
    INFO(c.what);
    const HostTensor t = tensor(c.dims, c.values);
    CHECK_FALSE(arranged(TensorValues(t)));
    CHECK_FALSE(fixed_pattern(t));
    CHECK(unstructured(t, 16));
    for (const Naming n : {Naming::module, Naming::folded, Naming::made_up, Naming::none}) CHECK(sum_of(t, n) >= 0);
  }
}

TEST_CASE("the same levels in the order of a filter or a transform are one", "[weights]") {
  const auto hadamard = [](int64_t i) {
    return (__builtin_popcountll(static_cast<uint64_t>((i / 16) & (i % 16))) % 2 ? -1. : 1.) * 0.217;
  };
  const auto dct = [](int64_t i) { return std::cos(M_PI / 16 * (static_cast<double>(i % 16) + 0.5) * double(i / 16)); };
  // 9 values that repeat: the same kernel for every channel.
  const auto copies = [](int64_t i) { return drawn_value(i % 9); };
  const auto circulant = [](int64_t i) { return drawn_value((i % 16 + i / 16) % 16); };
  const auto toeplitz = [](int64_t i) { return drawn_value(i % 16 - i / 16 + 40); };
  const auto window = [](int64_t i) { return 0.54 - 0.46 * std::cos(2 * M_PI * static_cast<double>(i % 64) / 63); };
  struct Case {
    const char* what;
    Dims dims;
    Values values;
  };
  const std::vector<Case> cases = {
      {"Hadamard", {16, 16}, made(256, hadamard)},  {"DCT", {16, 16}, made(256, dct)},
      {"copies", {12, 1, 3, 3}, made(108, copies)}, {"circulant", {16, 16}, made(256, circulant)},
      {"Toeplitz", {16, 16}, made(256, toeplitz)},  {"window", {64}, made(64, window)}};
  for (const Case& c : cases) {
    INFO(c.what);
    CHECK(arranged(TensorValues(tensor(c.dims, c.values))));
    CHECK_FALSE(unstructured(tensor(c.dims, c.values), 16));
    if (c.dims.size() > 1) CHECK(sum_of(tensor(c.dims, c.values), Naming::module) <= -7);
  }
}

TEST_CASE("trends, typed decimals, steps and boxes in a weight's place are constants", "[weights]") {
  const auto power = [](int64_t i) { return std::pow(static_cast<double>(i % 6) / 6, static_cast<double>(i / 6)); };
  const double color[] = {0.299, 0.587, 0.114, -0.168736, -0.331264, 0.5, 0.5, -0.418688, -0.081312};
  CHECK(fixed_pattern(tensor({3, 6}, made(18, power))).value().certain);
  CHECK(fixed_pattern(tensor({6, 3}, made(18, [&](int64_t i) { return power(i % 3 * 6 + i / 3); }))).value().certain);
  CHECK(fixed_pattern(tensor({3, 3, 1, 1}, made(9, [&](int64_t i) { return color[i]; }))).value().certain);
  CHECK(fixed_pattern(tensor({1, 2, 2, 1}, {1.25, 1.625, 4.125, 2.875})).value().certain);
  CHECK_FALSE(fixed_pattern(tensor({3, 6}, made(18, drawn_value))));
  // A product with 0, 1, 2, ... computes the mean of a distribution over bins. The evidence against a weight must
  // exceed the evidence of an exporter's list of parameters (+9).
  CHECK(sum_of(tensor({1, 8, 1, 1}, made(8, [](int64_t i) { return double(i); })), Naming::module) <= -18);
  CHECK(sum_of(tensor({16, 1}, made(16, [](int64_t i) { return double(i) / 7.5 - 1; })), Naming::module) <= -9);
  CHECK(sum_of(tensor({3, 1, 5}, Values(15, 0.2)), Naming::module) <= -9);
}

TEST_CASE("numbers of formulas are told from trained ones", "[weights]") {
  const auto formula = [](double x) { return from_formula(tensor({}, {x})); };
  for (const double x :
       {0.5, 1e-5, 0.044715, 1 / std::sqrt(24), std::sqrt(2 / M_PI), 1 / 255.0, 0.229, 213.37, std::log(2.0),
        1 / std::log(10.0), 2 * M_PI, 1.6732632423543772, 1 / 0.07, std::log(1 / 0.07), -1e9, 30.0, 7.0 / 12})
    CHECK(formula(x));
  int passed = 0;
  for (int64_t i = 0; i < 400; ++i) passed += formula(drawn_value(i));
  CHECK(passed < 60);  // about a tenth of random values pass by chance
  CHECK(from_formula(tensor({}, {0.8051933}).cast(DType::f16)));
}

TEST_CASE("weights that were printed with six digits are told from weights of 32 bits", "[few_levels]") {
  const Values drawn = made(64, drawn_value);
  Values printed = drawn;
  for (double& x : printed) {
    const double unit = std::pow(10.0, 5 - std::floor(std::log10(std::fabs(x))));
    x = std::round(x * unit) / unit;  // to six digits, as printf's "%g" rounds
  }
  CHECK(printed_decimals(tensor({8, 8}, printed)));
  CHECK(printed_decimals(tensor({6}, {0.299, 0.587, 0.114, -0.168736, 128, 0})));
  CHECK_FALSE(printed_decimals(tensor({8, 8}, drawn)));
}
