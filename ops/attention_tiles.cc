// Fused attention in fp32 and 16 bits on the CPU (after FlashAttention, Dao et al. 2022). A head's keys and values are
// packed once. Then blocks of queries are processed. The scores of a block stay in the second-level cache between its
// matrix products (two in forward, five in backward). Queries are read in place; heads are not transposed in memory.
// Keys that a mask hides from a whole block are skipped. The next head's rows are prefetched.
#include <cmath>
#include <utility>

#include "backend/cpu/gemm/bf16_pairs.h"
#include "backend/cpu/gemm/panel_product.h"
#include "backend/rows.h"
#include "ops/attention_heads.h"

namespace amp::attention_detail {

namespace {

// Number of scores per block of queries. If the mask differs by query, blocks are smaller, so that more keys are hidden
// from a whole block and can be skipped.
constexpr int64_t kBlockCells = 32768, kMaskedBlockCells = 8192;
constexpr int64_t kMostPanel = 32;  // largest number of keys per panel
// A mask value of at most this number hides a key: added to any finite score, it makes the key's exponential 0 relative
// to that of a visible key.
constexpr double kHidden = -1e30;

using cpu::PanelProduct;

class Tiles : protected Heads<float> {
 protected:
  // dy: the gradient of the output; empty in forward. Matrix products use pairs of bf16 if all factors are stored as
  // bf16.
  Tiles(const KernelArgs& a, const Tensor& dy)
      : Heads(a, a.in),
        product_(all_bf16({&q_, &k_, &v_, &dy}) ? DType::bf16 : DType::f32),
        wide_(product_.padded(f_.width)),
        value_wide_(product_.padded(f_.value_width)) {
    const int64_t cells = f_.mask[2] ? kMaskedBlockCells : kBlockCells;
    rows_ = std::min(cells / std::max<int64_t>(1, row_floats(f_.longest_key())), f_.longest_query() + 7);
    rows_ = std::max<int64_t>(1, rows_ / 8) * 8;
  }
  static bool all_bf16(std::initializer_list<const Tensor*> operands) {
    return std::all_of(operands.begin(), operands.end(),
                       [](const Tensor* t) { return !t->data || t->dtype == DType::bf16; });
  }

  // Returns the number of floats in one query's row of scores, including padding.
  int64_t row_floats(int64_t keys) const { return (product_.padded(keys) + 15) / 16 * 16; }
  // Calls lay_out(Carver&) twice: first to measure the memory that it takes, then to divide the thread's scratch
  // memory.
  template <class LayOut>
  static auto in_scratch(const LayOut& lay_out) {
    Carver measure(nullptr);
    lay_out(measure);
    const auto base = reinterpret_cast<uintptr_t>(thread_scratch<float>(measure.bytes() / 4 + 32, 0));
    Carver carve(reinterpret_cast<void*>((base + 63) / 64 * 64));
    return lay_out(carve);
  }

  static cpu::PackSource source(const StoredRows& m, bool depth_major) { return {m.data, m.dtype, m.ld, depth_major}; }
  // Return x (rows, width), or x^T for pack_transposed(), packed as the right-hand side of a product.
  PanelProduct::Right pack(const StoredRows& x, int64_t rows, int64_t width, float* to) const {
    return product_.pack(source(x, false), width, rows, to);
  }
  PanelProduct::Right pack_transposed(const StoredRows& x, int64_t rows, int64_t width, float* to) const {
    return product_.pack(source(x, true), rows, width, to);
  }
  // Returns the number of floats for a copy of a block's queries as the left-hand side of a product; 0 if they are read
  // in place.
  int64_t copy_floats(const Tensor& t, const AttentionForm::Strides& s, int64_t width) const {
    return reads_in_place(t.dtype, s.token, width) ? 0 : rows_ * product_.steps(width);
  }
  PanelProduct::Left left(const StoredRows& x, int64_t rows, int64_t width, float* copy) const {
    const int64_t steps = product_.steps(width);
    if (reads_in_place(x.dtype, x.ld, width)) return {x.data, product_.pairs() ? x.ld / 2 : x.ld, true};
    for (int64_t i = 0; i < rows; ++i) {
      const char* from = static_cast<const char*>(x.data) + i * x.ld * size_of(x.dtype);
      float* to = copy + i * steps;
      if (product_.pairs()) {
        to[steps - 1] = 0;
        std::memcpy(to, from, static_cast<size_t>(width * 2));
      } else {
        convert(x.dtype, from, DType::f32, to, width);
      }
    }
    return {copy, steps, true};
  }
  bool reads_in_place(DType t, int64_t ld, int64_t width) const {
    return product_.pairs() ? ld % 2 == 0 && width % 2 == 0 : t == DType::f32;
  }

  // Computes z = q k^T for queries [i0, i0 + n) and applies the mask. Returns the factor by which the caller must still
  // multiply z.
  float scores(const Unit& u, int64_t i0, int64_t n, const Keys& keys, const PanelProduct::Right& k, float* z,
               float* copy, float* mask_scratch, cpu::LinePrefetch& ahead) const {
    const int64_t ld = row_floats(u.keys);
    product_.run(left(at(q_, f_.q, u, i0), n, f_.width, copy), n, k, {0, k.steps, keys.begin, keys.end}, z, ld, false,
                 ahead);
    const auto scale = static_cast<float>(f_.scale);
    if (!mask_.data && scale >= 0) return scale;
    for (int64_t i = 0; i < n; ++i) add_mask(u, i0 + i, keys, scale, z + i * ld, mask_scratch);
    return 1;
  }

  // Returns the keys that the mask leaves visible to at least one of the queries [i0, i0 + n), rounded to whole panels.
  // Returns all keys if there is no mask or if it leaves some query without a visible key.
  Keys visible(const Unit& u, int64_t i0, int64_t n) const {
    const Keys all{0, u.keys};
    if (!mask_.data || f_.mask[3] == 0 || (mask_.dtype == DType::boolean && f_.fill > kHidden)) return all;
    const int64_t panel = product_.padded(1), panels = product_.padded(u.keys) / panel, rows = f_.mask[2] ? n : 1;
    int64_t first = panels, last = 0;
    for (int64_t i = i0; i < i0 + rows && (first > 0 || last < panels); ++i) {
      const auto seen = [&](int64_t p) {
        return any_seen(mask_row(u, i) + p * panel, std::min(panel, u.keys - p * panel));
      };
      int64_t end = panels, begin = 0;
      while (end > 0 && !seen(end - 1)) --end;
      if (end == 0) return all;
      while (begin < std::min(first, end) && !seen(begin)) ++begin;
      first = std::min(first, begin), last = std::max(last, end);
    }
    return {first * panel, std::min(last * panel, u.keys)};
  }
  bool any_seen(int64_t from, int64_t n) const {
    bool any = false;
    if (mask_.dtype == DType::boolean) {
      const bool* keep = static_cast<const bool*>(mask_.data) + from;
      for (int64_t j = 0; j < n; ++j) any |= keep[j];
      return any;
    }
    float copy[kMostPanel];
    const float* m = elementwise_detail::load<float>(mask_, from, n, copy);
    for (int64_t j = 0; j < n; ++j) any |= m[j] > static_cast<float>(kHidden);
    return any;
  }

  // Prefetches the rows of a tensor that belong to a head.
  void fetch(cpu::LinePrefetch& ahead, const Tensor& t, const AttentionForm::Strides& s, const Unit& u, int64_t rows,
             int64_t width) const {
    const int64_t size = size_of(t.dtype);
    ahead.add(at(t, s, u, 0).data, s.token * size, rows, width * size);
  }

  PanelProduct product_;
  int64_t wide_, value_wide_;  // widths rounded up to whole panels
  int64_t rows_;               // queries per block
};

class Forward : Tiles {
 public:
  explicit Forward(const KernelArgs& a)
      : Tiles(a, {}), y_(a.out[0]), lse_(a.out[1].as<float>()), rest_(a.out[2].as<float>()) {}
  void operator()() const {
    parallel_ranges(f_.units(), 1, [&](int64_t b, int64_t e) {
      for (int64_t u = b; u < e; ++u) head(unit(u), u + 1 < e ? unit(u + 1) : Unit{});
    });
    clear_tail(y_, f_.y, f_.value_width);
    clear_statistics(lse_, rest_);
  }

 private:
  struct Room {
    float *kt, *v;        // transposed keys, and values, packed in panels
    float *z, *image;     // z: scores; image: exponentials as pairs of bf16
    float *q, *mask, *y;  // copies of rows of the tensors
    float *top, *sum;     // maximum and sum of exponentials of each query
  };
  Room lay_out(Carver& c) const {
    const int64_t keys = f_.longest_key(), cells = rows_ * row_floats(keys);
    Room r{};
    r.kt = c.take<float>(product_.panel_floats(keys, f_.width));
    r.v = c.take<float>(product_.panel_floats(f_.value_width, keys));
    r.z = c.take<float>(cells);
    r.image = c.take<float>(product_.pairs() ? cells / 2 : 0);
    r.q = c.take<float>(copy_floats(q_, f_.q, f_.width));
    r.mask = c.take<float>(keys);
    r.y = c.take<float>(rows_ * value_wide_);
    r.top = c.take<float>(rows_);
    r.sum = c.take<float>(rows_);
    return r;
  }
  void head(const Unit& u, const Unit& next) const {
    if (u.keys == 0) {
      clear(at(y_, f_.y, u, 0), u.queries, f_.value_width);
      for (int64_t i = 0; i < u.queries; ++i) set(lse_at(u, i), {-static_cast<float>(kInf), 0});
      return;
    }
    const Room r = in_scratch([this](Carver& c) { return lay_out(c); });
    const PanelProduct::Right k = pack_transposed(at(k_, f_.k, u, 0), u.keys, f_.width, r.kt),
                              v = pack(at(v_, f_.v, u, 0), u.keys, f_.value_width, r.v);
    cpu::LinePrefetch ahead;
    fetch(ahead, y_, f_.y, u, u.queries, f_.value_width);
    fetch(ahead, k_, f_.k, next, next.keys, f_.width);
    fetch(ahead, v_, f_.v, next, next.keys, f_.value_width);
    fetch(ahead, q_, f_.q, next, next.queries, f_.width);
    ahead.spread(product_.blocks(u.queries, u.keys, product_.steps(f_.width)) +
                 product_.blocks(u.queries, f_.value_width, product_.steps(u.keys)));
    const int64_t ld = row_floats(u.keys);
    for (int64_t i0 = 0; i0 < u.queries; i0 += rows_) {
      const int64_t n = std::min(rows_, u.queries - i0);
      const Keys keys = visible(u, i0, n);
      const float scale = scores(u, i0, n, keys, k, r.z, r.q, r.mask, ahead);
      softmax_rows({n, keys.count(), ld, scale}, r.z, r.top, r.sum);
      for (int64_t i = 0; i < n; ++i) {
        set(lse_at(u, i0 + i), finish(r.top[i], r.sum[i], r.z + i * ld, ld));
        if (f_.dropout) drop(u, i0 + i, keys, r.z + i * ld, r.mask);
      }
      PanelProduct::Left p{r.z, ld, true};
      if (product_.pairs()) {
        bf16_pairs::round(r.z, n * ld, reinterpret_cast<BFloat16*>(r.image));
        p = {r.image, ld / 2, true};
      }
      const PanelProduct::Part part{product_.steps(keys.begin), product_.steps(keys.end), 0, f_.value_width};
      product_.run(p, n, v, part, r.y, value_wide_, false, ahead);
      store_rows(r.y, value_wide_, n, f_.value_width, r.sum, 1, at(y_, f_.y, u, i0));
    }
  }
  void set(int64_t row, const LogSum<float>& s) const { lse_[row] = s.lse, rest_[row] = s.rest; }
  // Returns the logarithm of the query's sum of exponentials. Replaces `sum` by the factor by which the query's row of
  // y must be multiplied.
  LogSum<float> finish(float top, float& sum, float* p, int64_t ld) const {
    constexpr float nan = std::numeric_limits<float>::quiet_NaN();
    if (top == -static_cast<float>(kInf)) {
      sum = 1;
      std::fill_n(p, ld, f_.empty_rows_zero ? 0.0f : nan);
      return {f_.empty_rows_zero ? static_cast<float>(kInf) : nan, 0};
    }
    const LogSum<float> s = split_log_sum(top, std::log(sum));
    sum = 1 / sum;
    return s;
  }
  void drop(const Unit& u, int64_t i, const Keys& keys, float* p, float* factor) const {
    factors(u, i, factor);
    simd([p, f = factor + keys.begin, n = keys.count()]() AMP_INLINE {
      for (int64_t j = 0; j < n; ++j) p[j] = f[j] == 0.0f ? 0.0f : p[j] * f[j];
    });
  }

  Tensor y_;
  float *lse_, *rest_;
};

class Backward : Tiles {
 public:
  explicit Backward(const KernelArgs& a)
      : Tiles(a, a.in[7]),
        y_(a.in[5]),
        dy_(a.in[7]),
        dq_(a.out[0]),
        dk_(f_.packed ? dq_ : a.out[1]),
        dv_(f_.packed ? dq_ : a.out[2]),
        lse_(a.in[6].as<float>()),
        rest_(a.in[8].as<float>()) {}
  void operator()() const {
    parallel_ranges(f_.units(), 1, [&](int64_t b, int64_t e) {
      for (int64_t u = b; u < e; ++u) head(unit(u), u + 1 < e ? unit(u + 1) : Unit{});
    });
    clear_tail(dq_, f_.q, f_.width);
    clear_tail(dk_, f_.k, f_.width);
    clear_tail(dv_, f_.v, f_.value_width);
  }

 private:
  struct Room {
    float *kt, *vt, *k;                                // packed operands of a head
    float *z, *g, *z_pairs, *g_pairs, *g_rows;         // scores and gradients; also as pairs of bf16
    float *q, *dy;                                     // packed operands of a block of queries
    float *q_copy, *dy_copy, *scratch, *factor, *out;  // buffers for rows
    LogSum<float>* sums;                               // log-sums (lse, rest) by query
    float* d;                                          // dot products of y and dy, by query
    float *dk, *dv;                                    // accumulated over the blocks of queries
  };
  Room lay_out(Carver& c) const {
    const int64_t keys = f_.longest_key(), cells = rows_ * row_floats(keys), pairs = product_.pairs() ? cells / 2 : 0;
    Room r{};
    r.kt = c.take<float>(product_.panel_floats(keys, f_.width));
    r.vt = c.take<float>(product_.panel_floats(keys, f_.value_width));
    r.k = c.take<float>(product_.panel_floats(f_.width, keys));
    r.z = c.take<float>(cells);
    r.g = c.take<float>(cells);
    for (float** at : {&r.z_pairs, &r.g_pairs, &r.g_rows}) *at = c.take<float>(pairs);
    r.q = c.take<float>(product_.panel_floats(f_.width, rows_));
    r.dy = c.take<float>(product_.panel_floats(f_.value_width, rows_));
    r.q_copy = c.take<float>(copy_floats(q_, f_.q, f_.width));
    r.dy_copy = c.take<float>(copy_floats(dy_, f_.y, f_.value_width));
    r.scratch = c.take<float>(std::max(keys, 2 * f_.value_width));
    r.factor = c.take<float>(f_.dropout ? row_floats(keys) + keys : 0);
    r.out = c.take<float>(rows_ * wide_);
    r.sums = c.take<LogSum<float>>(rows_);
    r.d = c.take<float>(rows_);
    r.dk = c.take<float>(keys * wide_);
    r.dv = c.take<float>(keys * value_wide_);
    return r;
  }
  cpu::LinePrefetch prefetch(const Unit& u, const Unit& next) const {
    cpu::LinePrefetch ahead;
    fetch(ahead, dq_, f_.q, u, u.queries, f_.width);
    fetch(ahead, dk_, f_.k, u, u.keys, f_.width);
    fetch(ahead, dv_, f_.v, u, u.keys, f_.value_width);
    fetch(ahead, k_, f_.k, next, next.keys, f_.width);
    fetch(ahead, v_, f_.v, next, next.keys, f_.value_width);
    fetch(ahead, q_, f_.q, next, next.queries, f_.width);
    fetch(ahead, dy_, f_.y, next, next.queries, f_.value_width);
    fetch(ahead, y_, f_.y, next, next.queries, f_.value_width);
    const int64_t queries = product_.steps(u.queries), keys = product_.steps(u.keys), width = product_.steps(f_.width);
    ahead.spread(2 * product_.blocks(u.queries, u.keys, width) + product_.blocks(u.queries, f_.width, keys) +
                 product_.blocks(u.keys, f_.width, queries) + product_.blocks(u.keys, f_.value_width, queries));
    return ahead;
  }
  void head(const Unit& u, const Unit& next) const {
    const auto scale = static_cast<float>(f_.scale), one = 1.0f;
    if (u.keys == 0) return clear(at(dq_, f_.q, u, 0), u.queries, f_.width);
    const Room r = in_scratch([this](Carver& c) { return lay_out(c); });
    const Right right{pack_transposed(at(k_, f_.k, u, 0), u.keys, f_.width, r.kt),
                      pack_transposed(at(v_, f_.v, u, 0), u.keys, f_.value_width, r.vt)};
    const PanelProduct::Right k = pack(at(k_, f_.k, u, 0), u.keys, f_.width, r.k);
    std::fill_n(r.dk, u.keys * wide_, 0.0f);
    std::fill_n(r.dv, u.keys * value_wide_, 0.0f);
    cpu::LinePrefetch ahead = prefetch(u, next);
    for (int64_t i0 = 0; i0 < u.queries; i0 += rows_) {
      const int64_t n = std::min(rows_, u.queries - i0);
      const Keys keys = visible(u, i0, n);
      differentiate(u, i0, n, keys, right, r, ahead);
      const Left left = as_operands(n, row_floats(u.keys), r);
      const PanelProduct::Part seen{product_.steps(keys.begin), product_.steps(keys.end), 0, f_.width};
      product_.run(left.ds_rows, n, k, seen, r.out, wide_, false, ahead);
      store_rows(r.out, wide_, n, f_.width, &scale, 0, at(dq_, f_.q, u, i0));
      const PanelProduct::Right q = pack(at(q_, f_.q, u, i0), n, f_.width, r.q),
                                dy = pack(at(dy_, f_.y, u, i0), n, f_.value_width, r.dy);
      product_.run(left.ds, keys.count(), q, {0, q.steps, 0, f_.width}, r.dk + keys.begin * wide_, wide_, true, ahead);
      product_.run(left.p, keys.count(), dy, {0, dy.steps, 0, f_.value_width}, r.dv + keys.begin * value_wide_,
                   value_wide_, true, ahead);
    }
    store_rows(r.dk, wide_, u.keys, f_.width, &scale, 0, at(dk_, f_.k, u, 0));
    store_rows(r.dv, value_wide_, u.keys, f_.value_width, &one, 0, at(dv_, f_.v, u, 0));
  }
  struct Left {
    PanelProduct::Left p, ds, ds_rows;
  };
  // Returns z and g of a block of n rows as left operands of products that sum over the rows, and g also for a product
  // that sums over the keys.
  Left as_operands(int64_t n, int64_t ld, const Room& r) const {
    if (!product_.pairs()) return {{r.z, ld, false}, {r.g, ld, false}, {r.g, ld, true}};
    for (int64_t i = 0; i < n; i += 2) {
      const auto pair = [&](const float* x, float* to) {
        bf16_pairs::round_pairs(x + i * ld, i + 1 < n ? x + (i + 1) * ld : nullptr, ld, to + i / 2 * ld);
      };
      pair(r.z, r.z_pairs);
      pair(r.g, r.g_pairs);
    }
    bf16_pairs::round(r.g, n * ld, reinterpret_cast<BFloat16*>(r.g_rows));
    return {{r.z_pairs, ld, false}, {r.g_pairs, ld, false}, {r.g_rows, ld / 2, true}};
  }
  struct Right {
    PanelProduct::Right kt, vt;
  };
  // Computes z = dropout(p), and g = ds (the gradient of the scores) before scaling, for queries [i0, i0 + n).
  void differentiate(const Unit& u, int64_t i0, int64_t n, const Keys& keys, const Right& right, const Room& r,
                     cpu::LinePrefetch& ahead) const {
    const int64_t ld = row_floats(u.keys);
    const StoredRows dy = at(dy_, f_.y, u, i0);
    const float scale = scores(u, i0, n, keys, right.kt, r.z, r.q_copy, r.scratch, ahead);
    product_.run(left(dy, n, f_.value_width, r.dy_copy), n, right.vt, {0, right.vt.steps, keys.begin, keys.end}, r.g,
                 ld, false, ahead);
    row_dots(at(y_, f_.y, u, i0), dy, n, f_.value_width, r.d, r.scratch);
    for (int64_t i = 0; i < n; ++i) r.sums[i] = {lse_[lse_at(u, i0 + i)], rest_[lse_at(u, i0 + i)]};
    if (!f_.dropout) differentiate_rows({n, keys.count(), ld, scale}, r.z, r.g, r.sums, r.d, nullptr);
    for (int64_t i = 0; i < n; ++i) {
      float *const z = r.z + i * ld, *const g = r.g + i * ld;
      if (f_.dropout) {
        factors(u, i0 + i, r.factor);
        differentiate_rows({1, keys.count(), ld, scale}, z, g, r.sums + i, r.d + i, r.factor + keys.begin);
      }
      const bool broken = std::isnan(r.sums[i].lse);
      if (broken && no_gradient(dy, i, r.scratch)) {
        std::fill_n(z, ld, 0.0f);
        std::fill_n(g, ld, 0.0f);
      }
      // At hidden keys ds must be 0. A mask of -inf gives that already, except if the row is NaN.
      if (hides() && (f_.fill != -kInf || broken)) hide(u, i0 + i, keys, g);
    }
  }
  bool no_gradient(const StoredRows& dy, int64_t i, float* scratch) const {
    convert(dy.dtype, static_cast<const char*>(dy.data) + i * dy.ld * size_of(dy.dtype), DType::f32, scratch,
            f_.value_width);
    return std::all_of(scratch, scratch + f_.value_width, [](float d) { return d == 0; });
  }

  Tensor y_, dy_, dq_, dk_, dv_;
  const float *lse_, *rest_;
};

}  // namespace

Kernel attention_tiles(const KernelArgs& a) { return Forward(a); }
Kernel attention_grad_tiles(const KernelArgs& a) { return Backward(a); }

}  // namespace amp::attention_detail
