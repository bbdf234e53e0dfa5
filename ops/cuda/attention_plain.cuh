// Kernels of fused attention in fp32 arithmetic, for any storage type and head width. A thread block computes 64 rows
// by 64 columns of a result, and processes 64 queries by 64 keys at a time. Also contains the small kernels that run
// before and after them.
#pragma once

#include "backend/cuda/launch.cuh"
#include "ops/cuda/attention.cuh"

namespace amp::cuda {

// Returns element i, which is stored in fp32, fp16 or bf16. (Attention accepts no other types.)
DEV float load_one(const Ref& r, int64_t i) {
  float v[1];
  load_some(r, i, v);
  return v[0];
}
DEV void store_one(const Ref& r, int64_t i, float v) {
  const float one[1] = {v};
  store_some(r, i, one);
}

// Products of 64x64 tiles by a block of 256 threads. Thread (x, y) = (thread % 16, thread / 16) owns the elements (y +
// 16 r, x + 16 c) of a tile, r and c from 0 to 3.
struct PlainTiles {
  static constexpr int kSize = 64, kThreads = 256, kPart = 32, kLd = kSize + 1, kPartLd = kPart + 1;
  static constexpr int64_t kShared = (2 * kSize * kPartLd + kSize * kLd) * 4;

  struct Rows {  // the tokens of a head, beginning with the first token of a tile
    const Ref& data;
    int64_t at, stride;
    int valid, width;
  };

  static DEV int x() { return thread_index() % 16; }
  static DEV int y() { return thread_index() / 16; }
  static DEV float* staged() { return shared_memory<float>(); }
  static DEV float* weights() { return staged() + 2 * kSize * kPartLd; }
  template <class F>
  static DEV void each(const F& f) {
    unrolled<4>([&](auto r) { unrolled<4>([&](auto c) { f(r, c, y() + 16 * r, x() + 16 * c); }); });
  }

  // Computes z = a b^T.
  static DEV void multiply(float (&z)[4][4], const Rows& a, const Rows& b) {
    each([&](auto r, auto c, int, int) { z[r][c] = 0; });
    float *const as = staged(), *const bs = as + kSize * kPartLd;
    for (int from = 0; from < a.width; from += kPart) {
      sync_threads();
      for (int i = thread_index(); i < kSize * kPart; i += kThreads) {
        const int row = i / kPart, h = from + i % kPart, to = row * kPartLd + i % kPart;
        as[to] = row < a.valid && h < a.width ? load_one(a.data, a.at + row * a.stride + h) : 0.0f;
        bs[to] = row < b.valid && h < a.width ? load_one(b.data, b.at + row * b.stride + h) : 0.0f;
      }
      sync_threads();
      const int n = a.width - from < kPart ? a.width - from : kPart;
      for (int h = 0; h < n; ++h) {
        float left[4], right[4];
        unrolled<4>([&](auto r) { left[r] = as[(y() + 16 * r) * kPartLd + h]; });
        unrolled<4>([&](auto c) { right[c] = bs[(x() + 16 * c) * kPartLd + h]; });
        each([&](auto r, auto c, int, int) { z[r][c] += left[r] * right[c]; });
      }
    }
  }
  // Computes sum += w b, or sum += w^T b if `transposed`. w (64, 64) is distributed over the threads in the same
  // way as z. Only columns [column, column + 64) of b are used.
  template <bool transposed>
  static DEV void accumulate(float (&sum)[4][4], const float (&w)[4][4], const Rows& b, int column) {
    float *const ws = weights(), *const bs = staged();
    sync_threads();
    each([&](auto r, auto c, int i, int j) { ws[i * kLd + j] = w[r][c]; });
    for (int i = thread_index(); i < kSize * kSize; i += kThreads) {
      const int row = i / kSize, h = column + i % kSize;
      bs[row * kLd + i % kSize] = row < b.valid && h < b.width ? load_one(b.data, b.at + row * b.stride + h) : 0.0f;
    }
    sync_threads();
    const int n = b.valid < kSize ? b.valid : kSize;
    for (int k = 0; k < n; ++k) {
      float left[4], right[4];
      unrolled<4>([&](auto r) { left[r] = transposed ? ws[k * kLd + y() + 16 * r] : ws[(y() + 16 * r) * kLd + k]; });
      unrolled<4>([&](auto c) { right[c] = bs[k * kLd + x() + 16 * c]; });
      each([&](auto r, auto c, int, int) { sum[r][c] += left[r] * right[c]; });
    }
  }
  // Stores the block's result, multiplied by `scale`, beginning at column `column`.
  static DEV void store_result(const float (&sum)[4][4], float scale, const Rows& to, int column) {
    each([&](auto r, auto c, int i, int j) {
      if (i < to.valid && column + j < to.width)
        store_one(to.data, to.at + i * to.stride + column + j, sum[r][c] * scale);
    });
  }
};

// The part of a result that one thread block computes, in all three kernels: the rows of one tile of a head's queries
// or keys, and a range of columns.
struct PlainBlock {
  AttentionUnit unit;
  int first, column;

  DEV PlainBlock(const AttentionProblem& p, int64_t index, int tiles, int parts)
      : unit(p, index / (tiles * parts)),
        first(static_cast<int>(index / parts % tiles) * PlainTiles::kSize),
        column(static_cast<int>(index % parts) * PlainTiles::kSize) {}
  DEV PlainTiles::Rows rows(const Ref& r, const AttentionForm::Strides& s, int64_t token, int tokens, int width) const {
    return {r, unit.at(s, token), s.token, static_cast<int>(tokens - token), width};
  }
};

struct PlainForward : PlainTiles {
  static constexpr bool cooperative = true;
  static constexpr int max_threads = kThreads;

  AttentionProblem p;
  Ref q, k, v, y;
  float *lse, *rest;
  int tiles, parts;

  DEV void operator()() const {
    const PlainBlock b(p, block_index(), tiles, parts);
    const AttentionUnit& unit = b.unit;
    if (b.first >= unit.queries) return;
    const AttentionDropout dropout(p, unit);
    float top[4], sum[4] = {}, out[4][4] = {};
    for (float& t : top) t = -INFINITY;
    for (int j0 = 0; j0 < unit.keys; j0 += kSize) {
      float z[4][4];
      multiply(z, b.rows(q, p.q, b.first, unit.queries, p.width), b.rows(k, p.k, j0, unit.keys, p.width));
      each([&](auto r, auto c, int i, int j) {
        const int query = b.first + i, key = j0 + j;
        float s = scaled(z[r][c], p.scale);
        if (p.mask && query < unit.queries && key < unit.keys)
          s = masked(p, s, mask_value(p, unit.mask_at(p, query, key)));
        z[r][c] = key < unit.keys ? s : -INFINITY;
      });
      unrolled<4>([&](auto r) {
        float highest = top[r];
        for (int c = 0; c < 4; ++c) highest = fmaxf(highest, z[r][c]);
        for (int m = 8; m > 0; m >>= 1) highest = fmaxf(highest, shuffle_xor(highest, m));
        const float shift = highest == -INFINITY ? 0.0f : highest, before = expf(top[r] - shift);
        top[r] = highest;
        sum[r] *= before;
        unrolled<4>([&](auto c) {
          out[r][c] *= before;
          z[r][c] = expf(z[r][c] - shift);
          sum[r] += z[r][c];
        });
      });
      if (dropout)
        each([&](auto r, auto c, int i, int j) {
          z[r][c] = dropped(z[r][c], dropout.keeps(b.first + i, j0 + j), p.keep);
        });
      accumulate<false>(out, z, b.rows(v, p.v, j0, unit.keys, p.value_width), b.column);
    }
    unrolled<4>([&](auto r) {
      for (int m = 8; m > 0; m >>= 1) sum[r] += shuffle_xor(sum[r], m);
      const AttentionRowEnd end(p, unit.keys, top[r], sum[r]);
      const int query = b.first + PlainTiles::y() + 16 * r;
      if (x() == 0 && b.column == 0 && query < unit.queries) {
        lse[unit.row(p, query)] = end.lse;
        rest[unit.row(p, query)] = end.rest;
      }
      unrolled<4>([&](auto c) { out[r][c] *= end.scale; });
    });
    store_result(out, 1, b.rows(y, p.y, b.first, unit.queries, p.value_width), b.column);
  }
};

struct PlainBackward : PlainTiles {
  AttentionProblem p;
  Ref q, k, v, dy;
  const float *lse, *rest, *d;
  int tiles, parts;

  // Computes z, a tile of the weights p after dropout, and g, the same tile of ds, the gradient of the scores. The tile
  // begins at query i0 and key j0.
  DEV void slopes(const PlainBlock& b, const AttentionDropout& dropout, int i0, int j0, float (&z)[4][4],
                  float (&g)[4][4]) const {
    const AttentionUnit& unit = b.unit;
    multiply(z, b.rows(q, p.q, i0, unit.queries, p.width), b.rows(k, p.k, j0, unit.keys, p.width));
    multiply(g, b.rows(dy, p.y, i0, unit.queries, p.value_width), b.rows(v, p.v, j0, unit.keys, p.value_width));
    each([&](auto r, auto c, int i, int j) {
      const int query = i0 + i, key = j0 + j;
      float weight = 0, slope = 0;
      if (query < unit.queries && key < unit.keys) {
        const int64_t row = unit.row(p, query);
        const float m = p.mask ? mask_value(p, unit.mask_at(p, query, key)) : 0.0f;
        const bool kept = !dropout || dropout.keeps(query, key);
        const float score = masked(p, scaled(z[r][c], p.scale), m);
        const float soft = all_keys_masked(lse[row], d[row]) ? 0.0f : expf((score - lse[row]) - rest[row]);
        weight = dropped(soft, kept, p.keep);
        if (!(p.hides() && m == 0)) slope = soft * (dropped(g[r][c], kept, p.keep) - d[row]);
      }
      z[r][c] = weight;
      g[r][c] = slope;
    });
  }
};

struct PlainGradKeys : PlainBackward {
  static constexpr bool cooperative = true;
  static constexpr int max_threads = kThreads;
  Ref dk, dv;
  DEV void operator()() const {
    const PlainBlock b(p, block_index(), tiles, parts);
    const AttentionUnit& unit = b.unit;
    if (b.first >= unit.keys) return;
    const AttentionDropout dropout(p, unit);
    float k_sum[4][4] = {}, v_sum[4][4] = {};
    for (int i0 = 0; i0 < unit.queries; i0 += kSize) {
      float z[4][4], g[4][4];
      slopes(b, dropout, i0, b.first, z, g);
      accumulate<true>(v_sum, z, b.rows(dy, p.y, i0, unit.queries, p.value_width), b.column);
      accumulate<true>(k_sum, g, b.rows(q, p.q, i0, unit.queries, p.width), b.column);
    }
    store_result(k_sum, p.scale, b.rows(dk, p.k, b.first, unit.keys, p.width), b.column);
    store_result(v_sum, 1, b.rows(dv, p.v, b.first, unit.keys, p.value_width), b.column);
  }
};

struct PlainGradQueries : PlainBackward {
  static constexpr bool cooperative = true;
  static constexpr int max_threads = kThreads;
  Ref dq;
  DEV void operator()() const {
    const PlainBlock b(p, block_index(), tiles, parts);
    const AttentionUnit& unit = b.unit;
    if (b.first >= unit.queries) return;
    const AttentionDropout dropout(p, unit);
    float sum[4][4] = {};
    for (int j0 = 0; j0 < unit.keys; j0 += kSize) {
      float z[4][4], g[4][4];
      slopes(b, dropout, b.first, j0, z, g);
      accumulate<false>(sum, g, b.rows(k, p.k, j0, unit.keys, p.width), b.column);
    }
    store_result(sum, p.scale, b.rows(dq, p.q, b.first, unit.queries, p.width), b.column);
  }
};

// Computes d, the dot product of dy and y, for every query. A term with dy = 0 is 0 even if y is not finite.
// Sixteen lanes share a row and load W elements at a time. Rows are visited in their order in memory.
template <int W>
struct AttentionDots {
  static constexpr bool cooperative = true;
  static constexpr int max_threads = 256;
  Ref y, dy;
  float* d;
  AttentionForm::Strides place;
  int64_t rows, queries;
  int heads, width;
  bool heads_first;

  DEV void operator()() const {
    const int mine = thread_index() % 16;
    for (int64_t pair = global_index() / 32; 2 * pair < rows; pair += global_threads() / 32) {
      const int64_t row = 2 * pair + lane() / 16;
      float sum = 0;
      int64_t to = 0;
      if (row < rows) {
        const int64_t inner = heads_first ? queries : heads, outer = quotient(row, inner),
                      batch = quotient(outer, heads_first ? heads : queries);
        const int64_t low = row - outer * inner, high = outer - batch * (heads_first ? heads : queries);
        const int64_t head = heads_first ? high : low, token = heads_first ? low : high;
        const int64_t at = place.offset + batch * place.batch + head * place.head + token * place.token;
        to = (batch * heads + head) * queries + token;
        for (int h = mine * W; h < width; h += 16 * W) {
          float a[W], b[W];
          load_some<W>(y, at + h, a);
          load_some<W>(dy, at + h, b);
          for (int w = 0; w < W; ++w) sum += b[w] == 0 ? 0.0f : a[w] * b[w];
        }
      }
      for (int m = 8; m > 0; m >>= 1) sum += shuffle_xor(sum, m);
      if (row < rows && mine == 0) d[to] = sum;
    }
  }
};

// Writes zeros to the results of tokens after the last sequence, which are padding.
struct AttentionTail {
  Ref data;
  AttentionForm::Strides place;
  const int64_t* end;
  int64_t tokens;
  int heads, width;
  float *lse, *rest;  // lse becomes infinity, rest 0; both may be null

  DEV void operator()() const {
    const int64_t row = int64_t{heads} * width, first = *end < 0 ? 0 : *end;
    for (int64_t i = first * row + global_index(); i < tokens * row; i += global_threads()) {
      const int64_t token = quotient(i, row), in_row = i - token * row, head = quotient(in_row, width);
      store_one(data, place.offset + token * place.token + head * place.head + (in_row - head * width), 0.0f);
      if (!lse || in_row != head * width) continue;
      lse[head * tokens + token] = INFINITY;
      rest[head * tokens + token] = 0;
    }
  }
};

}  // namespace amp::cuda
