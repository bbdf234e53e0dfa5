// Code that the fp64 and fp32 CPU kernels of FusedAttention and FusedAttentionGrad share: addresses of a
// head's operands, and masks and dropout for a row of scores.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "backend/cpu/workspace.h"
#include "backend/elementwise.h"
#include "ops/attention_rows.h"
#include "ops/fused_attention.h"

namespace amp::attention_detail {

// The kernels of ops/attention_fp64.cc and ops/attention_tiles.cc.
Kernel attention_fp64(const KernelArgs&, Carver&);
Kernel attention_grad_fp64(const KernelArgs&, Carver&);
Kernel attention_tiles(const KernelArgs&);
Kernel attention_grad_tiles(const KernelArgs&);

constexpr double kInf = std::numeric_limits<double>::infinity();

// Returns outputs 1 and 2 of FusedAttention (lse, rest) for a row whose largest score is `top`. log_sum: the
// logarithm of the sum of exp(score - top).
template <class T>
LogSum<T> split_log_sum(T top, T log_sum) {
  const T lse = top + log_sum;
  // rest is the rounding error of lse (Fast2Sum, exact if the magnitude of top is at least that of log_sum).
  return {lse, std::isfinite(lse) ? log_sum - (lse - top) : T(0)};
}

// The operands of the forward or the backward kernel. A thread processes one head of one batch entry or
// sequence. T: the type of the arithmetic.
template <class T>
class Heads {
 public:
  Heads(const KernelArgs& a, const std::vector<Tensor>& in) : state_(a.state) {
    const auto dims = [&](size_t i) { return a.has(i) ? a.in[i].dims : Dims{}; };
    f_ = attention_form(a.attrs(), a.in[0].dims, dims(1), dims(2), dims(3), dims(4));
    q_ = in[0];
    k_ = f_.packed ? q_ : in[1];
    v_ = f_.packed ? q_ : in[2];
    if (a.has(3)) mask_ = in[3];
    if (a.has(4)) offsets_ = a.in[4].template as<int64_t>();
  }

 protected:
  struct Unit {
    int64_t batch, head, first, queries, keys;
  };  // first: index of the sequence's first token, in the query and in the key tensor
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
  StoredRows at(const Tensor& t, const AttentionForm::Strides& s, const Unit& u, int64_t token) const {
    const int64_t e = s.offset + (f_.sequences ? 0 : u.batch) * s.batch + u.head * s.head + (u.first + token) * s.token;
    return {static_cast<const char*>(t.data) + e * size_of(t.dtype), t.dtype, s.token};
  }
  int64_t lse_at(const Unit& u, int64_t i) const {
    return ((f_.sequences ? 0 : u.batch) * f_.heads + u.head) * f_.queries + u.first + i;
  }

  // Sets lse to infinity and rest to 0 for the tokens after the last sequence, which are padding.
  void clear_statistics(T* lse, T* rest) const {
    for (int64_t n = 0; n < f_.heads && f_.sequences; ++n) {
      std::fill(lse + n * f_.queries + tail(), lse + (n + 1) * f_.queries, static_cast<T>(kInf));
      std::fill(rest + n * f_.queries + tail(), rest + (n + 1) * f_.queries, T(0));
    }
  }

  // A range [begin, end) of keys. Keys are the columns of a block of scores.
  struct Keys {
    int64_t begin, end;
    int64_t count() const { return end - begin; }
  };
  // Sets z = scale z + mask, where z are the scores of query i for these keys. scratch: keys.count() elements.
  void add_mask(const Unit& u, int64_t i, const Keys& keys, T scale, T* z, T* scratch) const {
    const int64_t n = keys.count(), step = mask_.data ? f_.mask[3] : 0,
                  from = mask_.data ? mask_row(u, i) + keys.begin * step : 0;
    if (mask_.data && mask_.dtype == DType::boolean) {
      const bool* keep = static_cast<const bool*>(mask_.data) + from;
      const T fill = static_cast<T>(f_.fill);
      return with_step(step, [&](auto s) AMP_INLINE {
        for (int64_t j = 0; j < n; ++j) z[j] = keep[j * s] ? scale * z[j] : fill;
      });
    }
    const T none = 0;
    const T* m = mask_.data ? elementwise_detail::load<T>(mask_, from, step ? n : 1, scratch) : &none;
    with_step(step, [&](auto s) AMP_INLINE {
      for (int64_t j = 0; j < n; ++j) z[j] = scale * z[j] + m[j * s];
    });
  }
  // hides(): whether a boolean mask can hide positions. hide() sets the gradient g to 0 at hidden positions.
  bool hides() const { return mask_.data && mask_.dtype == DType::boolean; }
  void hide(const Unit& u, int64_t i, const Keys& keys, T* g) const {
    const int64_t n = keys.count(), step = f_.mask[3];
    const bool* keep = static_cast<const bool*>(mask_.data) + mask_row(u, i) + keys.begin * step;
    with_step(step, [&](auto s) AMP_INLINE {
      for (int64_t j = 0; j < n; ++j) g[j] = keep[j * s] ? g[j] : T(0);
    });
  }
  int64_t mask_row(const Unit& u, int64_t i) const {
    return u.batch * f_.mask[0] + u.head * f_.mask[1] + i * f_.mask[2];
  }

  // Writes the factors by which dropout multiplies the weights of query i, for all its keys.
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
  // tail() returns the index of the first token after the last sequence.
  int64_t tail() const { return f_.sequences ? offsets_[f_.sequences] : f_.queries; }
  void clear_tail(const Tensor& t, const AttentionForm::Strides& s, int64_t width) const {
    for (int64_t n = 0; n < f_.heads; ++n) {
      for (int64_t i = tail(); i < f_.queries; ++i) clear(at(t, s, {0, n, 0, 0, 0}, i), 1, width);
    }
  }
  static void clear(const StoredRows& m, int64_t rows, int64_t width) {
    for (int64_t i = 0; i < rows; ++i) {
      std::memset(static_cast<char*>(const_cast<void*>(m.data)) + i * m.ld * size_of(m.dtype), 0,
                  static_cast<size_t>(width * size_of(m.dtype)));
    }
  }

  AttentionForm f_;
  Tensor q_, k_, v_, mask_;
  const int64_t* offsets_ = nullptr;
  const RunState* state_;

 private:
  // Calls loop(step) with step as a compile-time constant, 1 or 0, so that the loop can be vectorized.
  template <class Loop>
  static void with_step(int64_t step, const Loop& loop) {
    simd([&]() AMP_INLINE {
      if (step)
        loop(std::integral_constant<int64_t, 1>());
      else
        loop(std::integral_constant<int64_t, 0>());
    });
  }
};

}  // namespace amp::attention_detail
