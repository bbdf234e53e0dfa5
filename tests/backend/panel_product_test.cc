// Parts of products with a packed right-hand side against fp64, at the boundaries of all blocks. Vectorized 2^x against
// the library function; rounding of rows to bf16 against rounding of single numbers.
#include "backend/cpu/gemm/panel_product.h"

#include <catch2/catch_all.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "backend/cpu/gemm/bf16_pairs.h"
#include "backend/cpu/vector_exp.h"
#include "base/host_tensor.h"

using namespace amp;
using namespace amp::cpu;

namespace {

// Returns uniform random numbers in [-1, 1), rounded to type t.
HostTensor draw(Dims dims, unsigned seed, DType t) {
  std::mt19937 bits(seed);
  std::vector<double> x(static_cast<size_t>(numel(dims)));
  for (double& v : x) v = static_cast<double>(bits()) * 0x1p-31 - 1;
  return HostTensor::of<double>(dims, x).cast(t);
}

struct Shape {
  int64_t rows, columns, depth;
};

// Computes a part of a product: columns from the second panel on (if there are two), and depth from step 16 on. Returns
// the largest error.
double error(const Shape& s, DType t, bool by_rows, bool transposed) {
  const PanelProduct product(t);
  const int64_t ratio = product.pairs() ? 2 : 1, steps = product.steps(s.depth), first = steps > 16 ? 16 : 0;
  const HostTensor a = draw({s.rows, s.depth}, 1, t), b = draw({s.depth, s.columns}, 2, t);
  const std::vector<double> x = a.to_doubles(), y = b.to_doubles();
  // Stores A as steps of 4 bytes (an fp32 number, or a pair of bf16 numbers), from step `first` on, with guard bytes
  // around it.
  const int64_t ld = by_rows ? steps + 3 : s.rows + 3;
  std::vector<float> left(static_cast<size_t>((by_rows ? s.rows : steps) * ld + 8), 7.0f);
  for (int64_t i = 0; i < s.rows; ++i) {
    for (int64_t p = first; p < steps; ++p) {
      const auto element = [&](int64_t k) {
        return k < s.depth ? static_cast<float>(x[static_cast<size_t>(i * s.depth + k)]) : 0.0f;
      };
      float both = element(p * ratio);
      if (product.pairs()) {
        const BFloat16 pair[2] = {BFloat16(element(2 * p)), BFloat16(element(2 * p + 1))};
        std::memcpy(&both, pair, 4);
      }
      left[static_cast<size_t>(by_rows ? i * ld + p - first : (p - first) * ld + i)] = both;
    }
  }
  // Stores B or its transpose.
  std::vector<double> z(y.size());
  for (int64_t k = 0; k < s.depth; ++k) {
    for (int64_t j = 0; j < s.columns; ++j)
      z[static_cast<size_t>(transposed ? j * s.depth + k : k * s.columns + j)] =
          y[static_cast<size_t>(k * s.columns + j)];
  }
  const HostTensor stored = HostTensor::of<double>({s.depth, s.columns}, z).cast(t);
  std::vector<float> panels(static_cast<size_t>(product.panel_floats(s.columns, s.depth)));
  const PanelProduct::Right right =
      product.pack({stored.data(), t, transposed ? s.depth : s.columns, transposed}, s.columns, s.depth, panels.data());
  const int64_t j0 = product.padded(1) < s.columns ? product.padded(1) : 0, width = product.padded(s.columns - j0);
  std::vector<float> c(static_cast<size_t>(s.rows * width), 0.5f);
  LinePrefetch nothing;
  const PanelProduct::Left a_part{left.data(), ld, by_rows};
  product.run(a_part, s.rows, right, {first, steps, j0, s.columns}, c.data(), width, true, nothing);
  double worst = 0;
  for (int64_t i = 0; i < s.rows; ++i) {
    for (int64_t j = j0; j < s.columns; ++j) {
      double want = 0.5;
      for (int64_t k = first * ratio; k < s.depth; ++k)
        want += x[static_cast<size_t>(i * s.depth + k)] * y[static_cast<size_t>(k * s.columns + j)];
      worst = std::max(worst, std::abs(want - static_cast<double>(c[static_cast<size_t>(i * width + j - j0)])));
    }
  }
  return worst;
}

// Returns 2^x of each element, at the available SIMD level.
template <bool Small>
std::vector<float> powers(std::vector<float> x) {
  x.resize((x.size() + 15) / 16 * 16);
  at_level([&]<int Lanes>() AMP_INLINE {
    using V = typename VectorOf<Lanes>::type;
    for (size_t i = 0; i < x.size(); i += Lanes) {
      V& v = *reinterpret_cast<V*>(&x[i]);
      V y;
      Exp2<Lanes>::template run<Small>(v, y);
      v = y;
    }
  });
  return x;
}

}  // namespace

TEST_CASE("products with packed panels are those of fp64") {
  for (const DType t : {DType::f32, DType::bf16}) {
    for (const bool by_rows : {true, false}) {
      for (const bool transposed : {true, false}) {
        for (const Shape& s :
             {Shape{1, 1, 1}, {2, 3, 5}, {8, 32, 16}, {9, 33, 31}, {17, 64, 128}, {23, 100, 77}, {48, 27, 32}}) {
          INFO(name_of(t) << (by_rows ? " rows " : " steps ") << (transposed ? "b^T " : "b ") << s.rows << ' '
                          << s.columns << ' ' << s.depth);
          // Bound of the rounding errors of an fp32 sum of `depth` products of numbers below 1.
          CHECK(error(s, t, by_rows, transposed) <= static_cast<double>(s.depth + 1) * 0x1p-23);
        }
      }
    }
  }
}

TEST_CASE("powers of two in vectors are the library's") {
  std::vector<float> x;
  for (int i = 0; i < 1 << 18; ++i) x.push_back(-126.0f + static_cast<float>(i) * (252.9f / (1 << 18)));
  for (const bool small : {false, true}) {
    const std::vector<float> y = small ? powers<true>(x) : powers<false>(x);
    double worst = 0;
    for (size_t i = 0; i < x.size(); ++i)
      worst = std::max(worst, std::abs(static_cast<double>(y[i]) / std::exp2(static_cast<double>(x[i])) - 1));
    CHECK(worst < 1.5e-7);
  }
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> y = powers<false>({0, -0.0f, 1, -1, -127, -1000, -inf, 127, 128, inf, nan, -nan});
  CHECK(std::vector<float>(y.begin(), y.begin() + 10) ==
        std::vector<float>{1, 1, 2, 0.5f, 0, 0, 0, 0x1p127f, 0x1p127f, 0x1p127f});
  CHECK(std::isnan(y[10]));
  CHECK(std::isnan(y[11]));
}

TEST_CASE("rows are rounded to bf16 as single numbers are") {
  if (!cpu_has_bf16()) SKIP("no instruction multiplies bf16");
  std::vector<float> low(32), high(32), pairs(32), zeros(32);
  for (size_t i = 0; i < 32; ++i) {
    low[i] = std::ldexp(1.0f + static_cast<float>(i * 37 % 1009) * 0x1p-10f, static_cast<int>(i) - 16);
    high[i] = -1.0f / low[i];
  }
  low[3] = std::numeric_limits<float>::quiet_NaN(), low[4] = std::numeric_limits<float>::infinity();
  std::vector<BFloat16> row(32);
  bf16_pairs::round(low.data(), 32, row.data());
  bf16_pairs::round_pairs(low.data(), high.data(), 32, pairs.data());
  bf16_pairs::round_pairs(low.data(), nullptr, 32, zeros.data());
  for (size_t i = 0; i < 32; ++i) {
    uint16_t pair[2], alone[2];
    std::memcpy(pair, &pairs[i], 4);
    std::memcpy(alone, &zeros[i], 4);
    CHECK(row[i].bits == BFloat16(low[i]).bits);
    CHECK(pair[0] == BFloat16(low[i]).bits);
    CHECK(pair[1] == BFloat16(high[i]).bits);
    CHECK(alone[0] == BFloat16(low[i]).bits);
    CHECK(alone[1] == 0);
  }
}
