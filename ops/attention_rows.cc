// Softmax of blocks of scores, and its gradient, in fp32 (attention_rows.h), vectorized for each SIMD level.
// vector_exp.h computes exp. The gradient recomputes probabilities from the scores and the row's log-sum-exp.

#include "ops/attention_rows.h"

#include <limits>

#include "backend/cpu/gemm/bf16_pairs.h"
#include "backend/cpu/vector_exp.h"
#include "backend/rows.h"

namespace amp::attention_detail {

namespace {

constexpr float kLog2E = 1.44269504f;

template <int Lanes>
using Vector = typename cpu::VectorOf<Lanes>::type;

int64_t padded(int64_t n, int64_t lanes) { return (n + lanes - 1) / lanes * lanes; }

constexpr float kInf = std::numeric_limits<float>::infinity();

// Returns the product, rounded to fp32, so that it is the same in forward and backward. The variable is volatile:
// otherwise the compiler may contract the product and a later sum to an fma, which does not round the product.
AMP_INLINE inline float scaled(float z, float scale) {
  const volatile float product = z * scale;
  return product;
}

// Returns the largest score of a row. Sets the padding after the last key to -inf, so that it does not affect the
// softmax.
template <int Lanes>
AMP_INLINE inline float row_maximum(float* z, int64_t keys) {
  using V = Vector<Lanes>;
  const int64_t n = padded(keys, Lanes);
  for (int64_t j = keys; j < n; ++j) z[j] = -kInf;
  V most = *reinterpret_cast<const V*>(z);
  for (int64_t j = Lanes; j < n; j += Lanes) {
    const V x = *reinterpret_cast<const V*>(z + j);
    most = x > most ? x : most;
  }
  return cpu::fold<Lanes>(most, [](const V& x, V& to) AMP_INLINE { to = x > to ? x : to; });
}

// Replaces the scores z by exp(scale (z - max)). Sets sum to their sum, and top to scale max. Exponents are rounded
// with a relative error of 2^-24, as the scores are.
template <int Lanes>
AMP_INLINE inline void softmax_row(float* z, int64_t keys, float scale, float& top, float& sum) {
  using V = Vector<Lanes>;
  const int64_t n = padded(keys, Lanes);
  const float highest = row_maximum<Lanes>(z, keys);
  const float to_exponent = scale * kLog2E;
  V total{};
  for (int64_t j = 0; j < n; j += Lanes) {
    V& x = *reinterpret_cast<V*>(z + j);
    const V exponent = (x - highest) * to_exponent;
    V p;
    cpu::Exp2<Lanes>::template run<true>(exponent, p);
    x = p;
    total += p;
  }
  top = scaled(highest, scale);
  sum = cpu::fold<Lanes>(total, [](const V& x, V& to) AMP_INLINE { to = x + to; });
}

template <int Lanes, bool Dropped>
AMP_INLINE inline void differentiate_row(float* z, float* g, int64_t keys, float scale, const LogSum<float>& s, float d,
                                         const float* factor) {
  using V = Vector<Lanes>;
  const int64_t n = padded(keys, Lanes);
  const float highest = row_maximum<Lanes>(z, keys), shift = highest == -kInf ? 0.0f : highest;
  const float to_exponent = scale * kLog2E, less = ((s.lse - scaled(shift, scale)) + s.rest) * kLog2E;
  for (int64_t j = 0; j < n; j += Lanes) {
    V& x = *reinterpret_cast<V*>(z + j);
    V& y = *reinterpret_cast<V*>(g + j);
    const V exponent = (x - shift) * to_exponent - less;
    V p;
    cpu::Exp2<Lanes>::run(exponent, p);
    if constexpr (Dropped) {
      const V f = *reinterpret_cast<const V*>(factor + j);
      y = p * ((f == 0.0f ? V{} : y * f) - d);
      x = f == 0.0f ? V{} : p * f;
    } else {
      y = p * (y - d);
      x = p;
    }
  }
  for (int64_t j = keys; j < n; ++j) z[j] = g[j] = 0;
}

template <int Lanes, class X, class Y>
AMP_INLINE inline float dot(const X* x, const Y* y, int64_t n) {
  using V = Vector<Lanes>;
  V sum{};
  int64_t i = 0;
  for (; i + Lanes <= n; i += Lanes) {
    typename cpu::VectorOf<Lanes>::local a, b;
    bf16_pairs::load<Lanes>(x + i, a);
    bf16_pairs::load<Lanes>(y + i, b);
    sum += a * b;
  }
  float total = cpu::fold<Lanes>(sum, [](const V& a, V& to) AMP_INLINE { to = a + to; });
  for (; i < n; ++i) total += static_cast<float>(x[i]) * static_cast<float>(y[i]);
  return total;
}
template <class T>
void dots(const StoredRows& x, const StoredRows& y, int64_t rows, int64_t width, float* to) {
  cpu::at_level([&]<int Lanes>() AMP_INLINE {
    for (int64_t i = 0; i < rows; ++i)
      to[i] = dot<Lanes>(static_cast<const T*>(x.data) + i * x.ld, static_cast<const T*>(y.data) + i * y.ld, width);
  });
}

}  // namespace

void softmax_rows(const ScoreRows& r, float* z, float* top, float* sum) {
  cpu::at_level([&]<int Lanes>() AMP_INLINE {
    for (int64_t i = 0; i < r.rows; ++i) softmax_row<Lanes>(z + i * r.ld, r.keys, r.scale, top[i], sum[i]);
  });
}

void differentiate_rows(const ScoreRows& r, float* z, float* g, const LogSum<float>* sums, const float* d,
                        const float* factor) {
  cpu::at_level([&]<int Lanes>() AMP_INLINE {
    for (int64_t i = 0; i < r.rows; ++i) {
      const int64_t at = i * r.ld;
      if (factor)
        differentiate_row<Lanes, true>(z + at, g + at, r.keys, r.scale, sums[i], d[i], factor + at);
      else
        differentiate_row<Lanes, false>(z + at, g + at, r.keys, r.scale, sums[i], d[i], nullptr);
    }
  });
}

void row_dots(const StoredRows& x, const StoredRows& y, int64_t rows, int64_t width, float* to, float* scratch) {
  if (x.dtype == y.dtype && x.dtype == DType::f32) return dots<float>(x, y, rows, width, to);
  if (x.dtype == y.dtype && x.dtype == DType::bf16) return dots<BFloat16>(x, y, rows, width, to);
  for (int64_t i = 0; i < rows; ++i) {
    const auto row = [&](const StoredRows& m, float* copy) {
      convert(m.dtype, static_cast<const char*>(m.data) + i * m.ld * size_of(m.dtype), DType::f32, copy, width);
      return StoredRows{copy, DType::f32, width};
    };
    dots<float>(row(x, scratch), row(y, scratch + width), 1, width, to + i);
  }
}

void store_rows(float* x, int64_t ld, int64_t rows, int64_t width, const float* factor, int64_t step,
                const StoredRows& to) {
  const bool direct = to.dtype == DType::f32;
  float* const out = direct ? static_cast<float*>(const_cast<void*>(to.data)) : x;
  const int64_t out_ld = direct ? to.ld : ld;
  cpu::at_level([&]<int Lanes>() AMP_INLINE {
    using V = Vector<Lanes>;
    for (int64_t i = 0; i < rows; ++i) {
      const float f = factor[i * step];
      int64_t j = 0;
      for (; j + Lanes <= width; j += Lanes)
        *reinterpret_cast<V*>(out + i * out_ld + j) = *reinterpret_cast<const V*>(x + i * ld + j) * f;
      for (; j < width; ++j) out[i * out_ld + j] = x[i * ld + j] * f;
      if (to.dtype == DType::bf16) {
        bf16_pairs::store<Lanes>(out + i * out_ld, width,
                                 static_cast<BFloat16*>(const_cast<void*>(to.data)) + i * to.ld);
      }
    }
  });
  if (direct || to.dtype == DType::bf16) return;
  for (int64_t i = 0; i < rows; ++i)
    convert(DType::f32, x + i * ld, to.dtype,
            static_cast<char*>(const_cast<void*>(to.data)) + i * to.ld * size_of(to.dtype), width);
}

}  // namespace amp::attention_detail
