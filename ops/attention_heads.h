// What the CPU kernels of FusedAttention and FusedAttentionGrad share: their operands as matrices of a head, products
// of these, masks and dropout of a block of rows.
#pragma once

#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include "backend/cpu/gemm.h"
#include "backend/cpu/operands.h"
#include "backend/cpu/packed_gemm.h"
#include "backend/elementwise.h"
#include "backend/rows.h"
#include "ops/fused_attention.h"

namespace amp::attention_detail {

constexpr double kInf = std::numeric_limits<double>::infinity();

struct Matrix {
  const void* data;
  DType dtype;
  int64_t ld;
};

template <class T>
void multiply(bool ta, bool tb, int64_t m, int64_t n, int64_t k, double alpha, const Matrix& a, const Matrix& b,
              const Matrix& c) {
  void* out = const_cast<void*>(c.data);
  if constexpr (std::is_same_v<T, double>) {
    cpu::gemm(ta, tb, m, n, k, alpha, static_cast<const T*>(a.data), a.ld, static_cast<const T*>(b.data), b.ld, 0.0,
              static_cast<T*>(out), c.ld);
  } else {
    cpu::PackedGemm g;
    g.m = m, g.n = n, g.k = k;
    g.alpha = static_cast<float>(alpha);
    g.a = {a.data, a.dtype, a.ld, ta};
    g.b = {b.data, b.dtype, b.ld, tb};
    g.c = out, g.c_dtype = c.dtype, g.ldc = c.ld;
    g.run_here();
  }
}

// Tensors where the products read and write them: as they are stored; all in fp64 for that arithmetic.
template <class T>
struct Images {
  std::vector<Tensor> in, out;
  Images(const KernelArgs& a, Carver&) : in(a.in), out(a.out) { in.resize(8); }
  void load() const {}
  void store() const {}
};
template <>
struct Images<double> {
  std::vector<Tensor> in, out;
  Operands<double> images;
  Images(const KernelArgs& a, Carver& c) : in(a.in), out(a.out), images(a, c) {
    for (size_t i = 0; i < in.size(); ++i) {
      if (images.input(i)) in[i] = {const_cast<double*>(images.input(i)), DType::f64, in[i].dims};
    }
    for (size_t i = 0; i < out.size(); ++i) out[i] = {images.output(i), DType::f64, out[i].dims};
    in.resize(8);
  }
  void load() const { images.load(); }
  void store() const { images.store(); }
};

// The operands of either kernel, and what one thread does: a head of one batch entry or sequence.
template <class T>
class Heads {
 public:
  Heads(const KernelArgs& a, const Images<T>& x) : x_(x), state_(a.state) {
    const auto dims = [&](size_t i) { return a.has(i) ? a.in[i].dims : Dims{}; };
    f_ = attention_form(a.attrs(), a.in[0].dims, dims(1), dims(2), dims(3), dims(4));
    q_ = x.in[0];
    k_ = f_.packed ? q_ : x.in[1];
    v_ = f_.packed ? q_ : x.in[2];
    mask_ = x.in[3];
    if (a.has(4)) offsets_ = a.in[4].template as<int64_t>();
    low_ = q_.dtype == DType::bf16;  // where the CPU multiplies it faster; fp16 it only stores
    block_ = std::max<int64_t>(32, 131072 / std::max<int64_t>(1, f_.longest_key()));
  }

 protected:
  struct Unit {
    int64_t batch, head, first, queries, keys;
  };  // first: token, of both
  Unit unit(int64_t u) const {
    const int64_t outer = u / f_.heads, head = u % f_.heads;
    if (!f_.sequences) return {outer, head, 0, f_.queries, f_.keys};
    const int64_t begin = offsets_[outer], n = offsets_[outer + 1] - begin;
    if (begin < 0 || n < 0 || n > f_.max_len || begin + n > f_.queries) {
      fail(Exit::data, "E_DATA_SHAPE",
           cat("a sequence of ", n, " tokens from ", begin, " on, where ", f_.max_len, " of ", f_.queries, " may be"));
    }
    return {outer, head, begin, n, n};
  }
  Matrix at(const Tensor& t, const AttentionForm::Strides& s, const Unit& u, int64_t token) const {
    const int64_t e = s.offset + (f_.sequences ? 0 : u.batch) * s.batch + u.head * s.head + (u.first + token) * s.token;
    return {static_cast<const char*>(t.data) + e * size_of(t.dtype), t.dtype, s.token};
  }
  int64_t lse_at(const Unit& u, int64_t i) const {
    return ((f_.sequences ? 0 : u.batch) * f_.heads + u.head) * f_.queries + u.first + i;
  }

  // z = scale q k^T + mask of rows [i0, i0 + n), each `keys` long. shown: if not null, 1 or 0 by what a boolean mask
  // keeps.
  void scores(const Unit& u, int64_t i0, int64_t n, T* z, T* mask_row, T* shown) const {
    multiply<T>(false, true, n, u.keys, f_.width, f_.scale, at(q_, f_.q, u, i0), at(k_, f_.k, u, 0),
                {z, DTypeOf<T>::value, u.keys});
    if (!mask_.data) return;
    for (int64_t i = 0; i < n; ++i) {
      T* row = z + i * u.keys;
      const int64_t from = u.batch * f_.mask[0] + u.head * f_.mask[1] + (i0 + i) * f_.mask[2];
      if (mask_.dtype == DType::boolean) {
        const bool* keep = static_cast<const bool*>(mask_.data) + from;
        const T fill = static_cast<T>(f_.fill);
        for (int64_t j = 0; j < u.keys; ++j) {
          const bool kept = keep[j * f_.mask[3]];
          if (!kept) row[j] = fill;
          if (shown) shown[i * u.keys + j] = kept ? T(1) : T(0);
        }
        continue;
      }
      const T* m = elementwise_detail::load<T>(mask_, from, f_.mask[3] ? u.keys : 1, mask_row);
      if (f_.mask[3]) {
        simd([&]() AMP_INLINE {
          for (int64_t j = 0; j < u.keys; ++j) row[j] += m[j];
        });
      } else {
        simd([&]() AMP_INLINE {
          for (int64_t j = 0; j < u.keys; ++j) row[j] += m[0];
        });
      }
    }
  }
  // Of row i.
  void factors(const Unit& u, int64_t i, T* factor) const {
    if (f_.sequences) {
      return dropout_factors(f_.dropout, *state_, u.batch, (u.head * f_.max_len + i) * f_.max_len, u.keys, factor);
    }
    const int64_t begin = ((u.batch * f_.heads + u.head) * f_.queries + i) * f_.keys;
    const int64_t per_sample = f_.batch * f_.heads * f_.queries * f_.keys / f_.samples;
    for (int64_t j = 0; j < u.keys;) {
      const int64_t sample = (begin + j) / per_sample, n = std::min(u.keys - j, (sample + 1) * per_sample - begin - j);
      dropout_factors(f_.dropout, *state_, sample, begin + j - sample * per_sample, n, factor + j);
      j += n;
    }
  }
  // n elements as the products take them: in bf16 when q is.
  Matrix as_operand(const T* x, int64_t n, int64_t ld, T* image) const {
    if (!low_) return {x, DTypeOf<T>::value, ld};
    convert(DTypeOf<T>::value, x, q_.dtype, image, n);
    return {image, q_.dtype, ld};
  }
  int64_t largest_block() const {
    return std::min(block_, std::max<int64_t>(f_.longest_query(), 1)) * std::max<int64_t>(f_.longest_key(), 1);
  }
  // Tokens behind the last sequence.
  int64_t tail() const { return f_.sequences ? offsets_[f_.sequences] : f_.queries; }
  void clear_tail(const Tensor& t, const AttentionForm::Strides& s, int64_t width) const {
    for (int64_t n = 0; n < f_.heads; ++n) {
      for (int64_t i = tail(); i < f_.queries; ++i) {
        std::memset(const_cast<void*>(at(t, s, {0, n, 0, 0, 0}, i).data), 0,
                    static_cast<size_t>(width * size_of(t.dtype)));
      }
    }
  }

  AttentionForm f_;
  Images<T> x_;
  Tensor q_, k_, v_, mask_;
  const int64_t* offsets_ = nullptr;
  const RunState* state_;
  bool low_;
  int64_t block_;  // rows at a time
};

}  // namespace amp::attention_detail
