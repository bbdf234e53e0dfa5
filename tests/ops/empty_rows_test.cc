// Attention rows whose keys are all masked give 0 and no gradient if that is requested (ONNX Attention, a guard after
// the softmax), else NaN as in the formula. A NaN row without an incoming gradient propagates none.
#include <catch2/catch_all.hpp>
#include <cmath>
#include <limits>

#include "backend/interpreter.h"
#include "graph/op.h"

using namespace amp;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr int64_t kTokens = 5, kWidth = 4, kEmpty = 2;  // all keys of row kEmpty are masked

HostTensor numbers(const Dims& dims, double phase, DType t) {
  std::vector<double> v;
  for (int64_t i = 0; i < numel(dims); ++i) v.push_back(std::sin(static_cast<double>(i) * 1.7 + phase));
  return HostTensor::of<double>(dims, v).cast(t);
}

HostTensor mask_of(bool boolean, DType t) {
  std::vector<double> v(kTokens * kTokens, boolean ? 1 : 0);
  for (int64_t j = 0; j < kTokens; ++j) v[static_cast<size_t>(kEmpty * kTokens + j)] = boolean ? 0 : -kInf;
  return HostTensor::of<double>({1, 1, kTokens, kTokens}, v).cast(boolean ? DType::boolean : t);
}

}  // namespace

TEST_CASE("fused attention of a row that sees nothing", "[attention]") {
  const Dims dims{1, kTokens, 1, kWidth};
  for (const DType t : {DType::f32, DType::f64}) {
    for (const bool boolean : {false, true}) {
      for (const bool zeros : {false, true}) {
        for (const double ratio : {0.0, 0.3}) {
          INFO(name_of(t) << (boolean ? " boolean" : " added") << (zeros ? " zeros" : " NaN") << " dropout " << ratio);
          const Attrs a{{"scale", 0.5}, {"empty_rows_zero", int64_t{zeros}}, {"ratio", ratio}, {"site", int64_t{1}}};
          std::vector<HostTensor> in{numbers(dims, 1, t), numbers(dims, 2, t), numbers(dims, 3, t),
                                     mask_of(boolean, t)};
          const auto out =
              evaluate_node(core_op("FusedAttention"), in, a, {{t, dims}, {t, {1, 1, kTokens}}, {t, {1, 1, kTokens}}});
          const std::vector<double> y = out[0].to_doubles();
          for (int64_t i = 0; i < kTokens * kWidth; ++i) {
            const double x = y[static_cast<size_t>(i)];
            if (i / kWidth != kEmpty)
              CHECK(std::isfinite(x));
            else
              CHECK((zeros ? x == 0 : std::isnan(x)));
          }
          std::vector<double> dy = numbers(dims, 4, t).to_doubles();
          if (!zeros) std::fill_n(dy.begin() + kEmpty * kWidth, kWidth, 0.0);
          in.insert(in.end(), {HostTensor(), out[0], out[1], HostTensor::of<double>(dims, dy).cast(t), out[2]});
          const auto slopes = evaluate_node(core_op("FusedAttentionGrad"), in, a, {{t, dims}, {t, dims}, {t, dims}});
          for (const HostTensor& s : slopes) {
            for (const double x : s.to_doubles()) CHECK(std::isfinite(x));
          }
          for (int64_t h = 0; h < kWidth; ++h)
            CHECK(slopes[0].to_doubles()[static_cast<size_t>(kEmpty * kWidth + h)] == 0);
          // The row must add nothing to the gradients of keys and values: they equal those with a zero upstream
          // gradient in this row.
          if (zeros) {
            std::fill_n(dy.begin() + kEmpty * kWidth, kWidth, 0.0);
            in[7] = HostTensor::of<double>(dims, dy).cast(t);
            const auto without = evaluate_node(core_op("FusedAttentionGrad"), in, a, {{t, dims}, {t, dims}, {t, dims}});
            for (size_t i = 1; i < 3; ++i) CHECK(slopes[i].to_doubles() == without[i].to_doubles());
          }
        }
      }
    }
  }
}

TEST_CASE("softmax of a row that is -inf throughout", "[attention]") {
  for (const DType t : {DType::f32, DType::f64, DType::f16}) {
    const HostTensor x = HostTensor::of<double>({3, 3}, {0, 1, -kInf, -kInf, -kInf, -kInf, 2, 2, 2}).cast(t);
    const auto run = [&](int64_t zeros) {
      return evaluate_node(core_op("Softmax"), {x}, {{"empty_rows_zero", zeros}}, {{t, {3, 3}}}).at(0).to_doubles();
    };
    const std::vector<double> asked = run(1), formula = run(0);
    for (size_t i = 3; i < 6; ++i) {
      CHECK(asked[i] == 0);
      CHECK(std::isnan(formula[i]));
    }
    for (const size_t i : {0, 1, 2, 6, 7, 8}) CHECK(asked[i] == formula[i]);
  }
}
