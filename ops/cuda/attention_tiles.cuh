// Kernels of fused attention on tensor cores (Dao, FlashAttention-2, 2023). All operands have the same 16-bit type.
// Head widths are multiples of eight, at most D. A thread block computes 64 rows (queries or keys), of which each
// warp computes 16. Scores stay in registers.
#pragma once

#include "backend/cuda/tile.cuh"
#include "ops/cuda/attention.cuh"

namespace amp::cuda {

constexpr int kAttentionRows = 64;  // rows (queries or keys) per thread block

// Functions that the three kernels share. Matrices in shared memory have D columns; rows are kLd = D + 8 apart.
template <DType type, int D>
struct AttentionTiles {
  static constexpr int kLd = D + 8, kSteps = D / 16, kThreads = 128, kChunks = D / 8;
  using Elements = uint16_t;

  // Fetches tokens [first, first + Rows) of a head. Tokens after `valid` and columns after `width` are zero.
  template <int Rows>
  static DEV void fetch(Elements* to, const Elements* from, int64_t token_stride, int valid, int width) {
    for (int c = thread_index(); c < Rows * kChunks; c += kThreads) {
      const int row = c / kChunks, column = c % kChunks * 8;
      const bool there = row < valid && column < width;
      copy_later(to + row * kLd + column, there ? from + row * token_stride + column : from, there ? 16 : 0);
    }
  }
  // Computes x = a b^T, with 16 rows per warp and 8 F columns. A warp reads the rows of a from row 16 * warp() on.
  // Column j of x is the product with row j of b.
  template <int F>
  static DEV void scores(TileC (&x)[F], const Elements* a, const Elements* b) {
    unrolled<F>([&](auto f) { x[f] = {}; });
    unrolled<kSteps>([&](auto s) {
      const TileA left = load_a(a + warp() * 16 * kLd + s * 16, kLd);
      multiply<F>(x, left, b + s * 16);
    });
  }
  template <int F>
  static DEV void multiply(TileC (&x)[F], const TileA& left, const Elements* b) {
    unrolled<F / 2>([&](auto f) {
      TileB one, two;
      load_b_pair(b + f * 16 * kLd, kLd, one, two);
      multiply_add<type>(x[2 * f], left, one);
      multiply_add<type>(x[2 * f + 1], left, two);
    });
  }
  // Computes sum += x b, where sum is (16 rows per warp, D). x (16, 8 F) is in registers; b is (8 F, D).
  template <int F>
  static DEV void accumulate(TileC (&sum)[kChunks], const TileC (&x)[F], const Elements* b) {
    unrolled<F / 2>([&](auto f) {
      const TileA left = as_a<type>(x[2 * f], x[2 * f + 1]);
      unrolled<kSteps>([&](auto s) {
        TileB one, two;
        load_b_pair_rows(b + f * 16 * kLd + s * 16, kLd, one, two);
        multiply_add<type>(sum[2 * s], left, one);
        multiply_add<type>(sum[2 * s + 1], left, two);
      });
    });
  }
  // Stores the block's rows. A thread multiplies its first row by `low`, and its second row, 8 rows further, by
  // `high`. The rows pass through `shared`, whose previous contents are no longer needed.
  static DEV void store_result(const TileC (&sum)[kChunks], float low, float high, Elements* shared, Elements* to,
                               int64_t token_stride, int valid, int width) {
    sync_threads();
    Elements* const mine = shared + (warp() * 16 + tile_row()) * kLd + tile_column();
    unrolled<kChunks>([&](auto c) {
      *reinterpret_cast<Word*>(mine + c * 8) = pack<type>(sum[c].v[0] * low, sum[c].v[1] * low);
      *reinterpret_cast<Word*>(mine + 8 * kLd + c * 8) = pack<type>(sum[c].v[2] * high, sum[c].v[3] * high);
    });
    sync_threads();
    for (int c = thread_index(); c < kAttentionRows * kChunks; c += kThreads) {
      const int row = c / kChunks, column = c % kChunks * 8;
      if (row >= valid || column >= width) continue;
      *reinterpret_cast<FourWords*>(to + row * token_stride + column) =
          *reinterpret_cast<const FourWords*>(shared + row * kLd + column);
    }
  }
  // Returns which elements of x (queries, keys) dropout keeps. Bit 4 f + i stands for x[f].v[i]. query: the warp's
  // first row. key: the first column.
  template <int F>
  static DEV uint32_t kept_by_query(const AttentionDropout& dropout, bool in_fours, int query, int key) {
    if (!dropout) return 0xffffffffu;
    const int row = query + tile_row(), column = key + tile_column();
    uint32_t kept = 0;
    if (!in_fours) {
      for (int e = 0; e < 4 * F; ++e)
        kept |= uint32_t{dropout.keeps(row + (e & 2) * 4, column + e / 4 * 8 + (e & 1))} << e;
      return kept;
    }
    // Two neighboring lanes need the same two Philox blocks, one for each of their rows. Each lane computes one block,
    // and the lanes exchange halves.
    const bool odd = (lane() & 1) != 0;
    for (int f = 0; f < F; ++f) {
      const PhiloxBlock b = dropout.words(row + (odd ? 8 : 0), (column + f * 8) / 4);
      const uint32_t all = uint32_t{dropout.keeps(b.v[0])} | uint32_t{dropout.keeps(b.v[1])} << 1 |
                           uint32_t{dropout.keeps(b.v[2])} << 2 | uint32_t{dropout.keeps(b.v[3])} << 3;
      const uint32_t other = shuffle_xor(all, 1);
      const uint32_t four = odd ? (other >> 2) | (all & 12u) : (all & 3u) | (other & 3u) << 2;
      kept |= four << 4 * f;
    }
    return kept;
  }
  // Returns which elements of x (keys, queries) dropout keeps, in the form that kept_by_query() returns.
  template <int F>
  static DEV uint32_t kept_by_key(const AttentionDropout& dropout, bool in_fours, int key, int query) {
    if (!dropout) return 0xffffffffu;
    const int row = key + tile_row(), column = query + tile_column();
    uint32_t kept = 0;
    if (!in_fours) {
      for (int e = 0; e < 4 * F; ++e)
        kept |= uint32_t{dropout.keeps(column + e / 4 * 8 + (e & 1), row + (e & 2) * 4)} << e;
      return kept;
    }
    // The lanes of four neighboring rows need the same four Philox blocks. Each lane computes the block that its
    // row modulo 4 selects, in the order of x[f].v, and takes its row's bit from all four.
    const int mine = tile_row() & 3;
    for (int f = 0; f < F; ++f) {
      const PhiloxBlock b = dropout.words(column + f * 8 + (mine & 1), (row + (mine & 2) * 4) / 4);
      uint32_t all = (uint32_t{dropout.keeps(b.v[0])} | uint32_t{dropout.keeps(b.v[1])} << 1 |
                      uint32_t{dropout.keeps(b.v[2])} << 2 | uint32_t{dropout.keeps(b.v[3])} << 3)
                     << 4 * mine;
      all |= shuffle_xor(all, 4);
      all |= shuffle_xor(all, 8);
      all >>= mine;
      kept |= ((all & 1u) | (all >> 3 & 2u) | (all >> 6 & 4u) | (all >> 9 & 8u)) << 4 * f;
    }
    return kept;
  }
};

template <DType type, int D, class Kind>
struct AttentionForward : AttentionTiles<type, D> {
  using Tiles = AttentionTiles<type, D>;
  using Tiles::kLd, Tiles::kSteps, Tiles::kChunks;
  static constexpr bool cooperative = true;
  static constexpr int max_threads = Tiles::kThreads, kKeys = 64;
  static constexpr int64_t kShared = (kAttentionRows + kKeys) * kLd * 2 + kKeys * 4;

  AttentionProblem p;
  const uint16_t *q, *k, *v;
  uint16_t* y;
  float *lse, *rest;
  int tiles;  // thread blocks per head

  DEV void operator()() const {
    const AttentionUnit unit(p, block_index() / tiles);
    const int i0 = static_cast<int>(block_index() % tiles) * kAttentionRows;
    if (i0 >= unit.queries) return;
    const AttentionDropout dropout(p, unit);
    uint16_t* const ks = shared_memory<uint16_t>();  // holds the queries at first
    uint16_t* const vs = ks + kAttentionRows * kLd;
    float* const column = reinterpret_cast<float*>(vs + kKeys * kLd);

    Tiles::template fetch<kAttentionRows>(ks, q + unit.at(p.q, i0), p.q.token, unit.queries - i0, p.width);
    commit_copies();
    await_copies<0>();
    sync_threads();
    TileA mine[kSteps];
    unrolled<kSteps>([&](auto s) { mine[s] = load_a(ks + warp() * 16 * kLd + s * 16, kLd); });
    sync_threads();

    const auto fetch_keys = [&](int j0) {
      Tiles::template fetch<kKeys>(ks, k + unit.at(p.k, j0), p.k.token, unit.keys - j0, p.width);
      commit_copies();
    };
    if (unit.keys > 0) fetch_keys(0);
    const int i = i0 + warp() * 16 + tile_row();  // this thread's first row
    float top[2] = {-INFINITY, -INFINITY}, sum[2] = {};
    TileC out[kChunks];
    unrolled<kChunks>([&](auto c) { out[c] = {}; });

    for (int j0 = 0; j0 < unit.keys; j0 += kKeys) {
      if (Kind::masks && p.per_key() && thread_index() < kKeys)
        column[thread_index()] =
            j0 + thread_index() < unit.keys ? mask_value(p, unit.mask_at(p, 0, j0 + thread_index())) : 0.0f;
      await_copies<0>();
      sync_threads();
      Tiles::template fetch<kKeys>(vs, v + unit.at(p.v, j0), p.v.token, unit.keys - j0, p.value_width);
      commit_copies();

      TileC z[kKeys / 8];
      unrolled<kKeys / 8>([&](auto f) { z[f] = {}; });
      unrolled<kSteps>([&](auto s) { Tiles::multiply(z, mine[s], ks + s * 16); });
      finish(unit, z, column, i, j0);
      float before[2];
      exponentials(z, top, sum, before);
      if (Kind::drops && dropout) {
        const uint32_t kept = Tiles::template kept_by_query<kKeys / 8>(dropout, p.in_fours, i - tile_row(), j0);
        unrolled<kKeys / 8>([&](auto f) {
          unrolled<4>([&](auto e) { z[f].v[e] = dropped(z[f].v[e], (kept >> (4 * f + e) & 1) != 0, p.keep); });
        });
      }
      unrolled<kChunks>([&](auto c) { unrolled<4>([&](auto e) { out[c].v[e] *= before[e / 2]; }); });

      await_copies<0>();
      sync_threads();
      if (j0 + kKeys < unit.keys) fetch_keys(j0 + kKeys);
      Tiles::accumulate(out, z, vs);
    }

    float scale[2];
    close_rows(unit, i, top, sum, scale);
    Tiles::store_result(out, scale[0], scale[1], ks, y + unit.at(p.y, i0), p.y.token, unit.queries - i0, p.value_width);
  }

  // Online softmax: replaces z by e^(z - top), where `top` is a row's largest score so far. before: receives the
  // factors by which the sums and results of the keys processed before must be multiplied.
  DEV static void exponentials(TileC (&z)[kKeys / 8], float (&top)[2], float (&sum)[2], float (&before)[2]) {
    unrolled<2>([&](auto r) {
      float highest = top[r];
      unrolled<kKeys / 8>([&](auto f) { highest = fmaxf(highest, fmaxf(z[f].v[2 * r], z[f].v[2 * r + 1])); });
      highest = fmaxf(highest, shuffle_xor(highest, 1));
      highest = fmaxf(highest, shuffle_xor(highest, 2));
      const float shift = highest == -INFINITY ? 0.0f : highest;
      before[r] = exp_near(top[r] - shift);
      top[r] = highest;
      sum[r] *= before[r];
      unrolled<kKeys / 8>([&](auto f) {
        unrolled<2>([&](auto e) {
          float& x = z[f].v[2 * r + e];
          x = exp_near(x - shift);
          sum[r] += x;
        });
      });
    });
  }

  // Writes lse and rest of this thread's rows. scale: receives the factors for the rows' results.
  DEV void close_rows(const AttentionUnit& unit, int i, const float (&top)[2], float (&sum)[2],
                      float (&scale)[2]) const {
    unrolled<2>([&](auto r) {
      sum[r] += shuffle_xor(sum[r], 1);
      sum[r] += shuffle_xor(sum[r], 2);
      const AttentionRowEnd end(p, unit.keys, top[r], sum[r]);
      scale[r] = end.scale;
      if ((lane() & 3) == 0 && i + 8 * r < unit.queries) {
        lse[unit.row(p, i + 8 * r)] = end.lse;
        rest[unit.row(p, i + 8 * r)] = end.rest;
      }
    });
  }

  // Turns z, the products of q and k, into scores: scales and masks them. Scores after the last key become -inf.
  DEV void finish(const AttentionUnit& unit, TileC (&z)[kKeys / 8], const float* column, int i, int j0) const {
    unrolled<kKeys / 8>([&](auto f) {
      unrolled<4>([&](auto e) {
        const int row = i + e / 2 * 8, at = f * 8 + tile_column() + e % 2, key = j0 + at;
        float x = scaled(z[f].v[e], p.scale);
        if (key >= unit.keys) {
          x = -INFINITY;
        } else if (Kind::masks && p.per_key()) {
          x = masked(p, x, column[at]);
        } else if (Kind::masks && p.mask) {
          x = masked(p, x, row < unit.queries ? mask_value(p, unit.mask_at(p, row, key)) : 0.0f);
        }
        z[f].v[e] = x;
      });
    });
  }
};

}  // namespace amp::cuda
