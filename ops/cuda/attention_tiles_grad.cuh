// Gradients of fused attention on tensor cores (attention_tiles.cuh; algorithm 2 of the same paper). One kernel
// computes dk and dv, another dq. Each element is computed by one block, so there are no atomics.
#pragma once

#include "ops/cuda/attention_tiles.cuh"

namespace amp::cuda {

// For one query and key: the weight p after dropout, and ds, the gradient of the score.
struct AttentionSlope {
  float p, ds;
};
// The values of a query that backward reads: lse, rest and d.
struct AttentionRow {
  float lse = 0, rest = 0, d = 0;
};
// Returns p and ds of one query and key. z: the score. g: the element of dy v^T. hidden: whether a boolean mask masks
// the key.
DEV AttentionSlope attention_slope(float z, float g, const AttentionRow& row, bool kept, float keep, bool hidden) {
  const float soft = all_keys_masked(row.lse, row.d) ? 0.0f : exp_near((z - row.lse) - row.rest), d = row.d;
  return {dropped(soft, kept, keep), hidden ? 0.0f : soft * (dropped(g, kept, keep) - d)};
}

// Computes dk and dv of 64 keys in a loop over the queries.
template <DType type, int D, class Kind>
struct AttentionGradKeys : AttentionTiles<type, D> {
  using Tiles = AttentionTiles<type, D>;
  using Tiles::kLd, Tiles::kChunks;
  static constexpr bool cooperative = true;
  static constexpr int max_threads = Tiles::kThreads, kQueries = D <= 64 ? 64 : 32, kFragments = kQueries / 8;
  static constexpr int64_t kShared = (2 * kAttentionRows + 4 * kQueries) * kLd * 2 + 6 * kQueries * 4;

  AttentionProblem p;
  const uint16_t *q, *k, *v, *dy;
  const float *lse, *rest, *d;
  uint16_t *dk, *dv;
  int tiles;

  DEV void operator()() const {
    const AttentionUnit unit(p, block_index() / tiles);
    const int j0 = static_cast<int>(block_index() % tiles) * kAttentionRows;
    if (j0 >= unit.keys) return;
    const AttentionDropout dropout(p, unit);
    uint16_t* const ks = shared_memory<uint16_t>();
    uint16_t* const vs = ks + kAttentionRows * kLd;
    uint16_t* const stages = vs + kAttentionRows * kLd;                         // two stages, each with queries and dy
    float* const rows = reinterpret_cast<float*>(stages + 4 * kQueries * kLd);  // two stages, each with lse, rest and d

    const auto fetch = [&](int i0, int stage) {
      fetch_queries(unit, i0, stages + 2 * stage * kQueries * kLd, rows + 3 * stage * kQueries);
    };
    Tiles::template fetch<kAttentionRows>(ks, k + unit.at(p.k, j0), p.k.token, unit.keys - j0, p.width);
    Tiles::template fetch<kAttentionRows>(vs, v + unit.at(p.v, j0), p.v.token, unit.keys - j0, p.value_width);
    commit_copies();
    if (unit.queries > 0) fetch(0, 0);
    const int j = j0 + warp() * 16 + tile_row();  // this thread's first key
    float own[2] = {};                            // mask values of this thread's two keys
    if (Kind::masks && p.per_key()) {
      for (int r = 0; r < 2; ++r) own[r] = j + 8 * r < unit.keys ? mask_value(p, unit.mask_at(p, 0, j + 8 * r)) : 0.0f;
    }
    TileC k_sum[kChunks], v_sum[kChunks];
    unrolled<kChunks>([&](auto c) { k_sum[c] = v_sum[c] = {}; });

    int stage = 0;
    for (int i0 = 0; i0 < unit.queries; i0 += kQueries, stage ^= 1) {
      await_copies<0>();
      sync_threads();
      if (i0 + kQueries < unit.queries) fetch(i0 + kQueries, stage ^ 1);
      const uint16_t *const qs = stages + 2 * stage * kQueries * kLd, *const dys = qs + kQueries * kLd;
      const float* const own_rows = rows + 3 * stage * kQueries;
      TileC z[kFragments], g[kFragments];
      Tiles::scores(z, ks, qs);
      Tiles::scores(g, vs, dys);
      uint32_t kept = 0xffffffffu;
      if constexpr (Kind::drops)
        kept = Tiles::template kept_by_key<kFragments>(dropout, p.in_fours, j - tile_row(), i0);
      const auto element = [&](auto f, auto e) {
        const int at = f * 8 + tile_column() + e % 2;
        const AttentionSlope s = slope(unit, i0 + at, j + e / 2 * 8, z[f].v[e], g[f].v[e], own[e / 2], own_rows + at,
                                       (kept >> (4 * f + e) & 1) != 0);
        z[f].v[e] = s.p;
        g[f].v[e] = s.ds;
      };
      unrolled<kFragments>([&](auto f) { unrolled<4>([&](auto e) { element(f, e); }); });
      Tiles::accumulate(v_sum, z, dys);
      Tiles::accumulate(k_sum, g, qs);
    }
    await_copies<0>();
    Tiles::store_result(k_sum, p.scale, p.scale, ks, dk + unit.at(p.k, j0), p.k.token, unit.keys - j0, p.width);
    Tiles::store_result(v_sum, 1, 1, vs, dv + unit.at(p.v, j0), p.v.token, unit.keys - j0, p.value_width);
  }

 private:
  // Returns p and ds of one query and key; 0 if either is beyond the last. z, g: the element's products of q and k, and
  // of dy and v. m: the key's mask value, used if the mask is per key. row: points to the query's lse; rest and d
  // follow at distances of kQueries.
  DEV AttentionSlope slope(const AttentionUnit& unit, int i, int key, float z, float g, float m, const float* row,
                           bool kept) const {
    if (i >= unit.queries || key >= unit.keys) return {0, 0};
    float x = scaled(z, p.scale);
    if constexpr (Kind::masks) {
      if (p.mask && !p.per_key()) m = mask_value(p, unit.mask_at(p, i, key));
      x = masked(p, x, m);
    }
    return attention_slope(x, g, {row[0], row[kQueries], row[2 * kQueries]}, kept, Kind::drops ? p.keep : 1.0f,
                           Kind::masks && p.hides() && m == 0);
  }
  // Fetches the queries from i0 on and their dy to qs, and their lse, rest and d to rows.
  DEV void fetch_queries(const AttentionUnit& unit, int i0, uint16_t* qs, float* rows) const {
    Tiles::template fetch<kQueries>(qs, q + unit.at(p.q, i0), p.q.token, unit.queries - i0, p.width);
    Tiles::template fetch<kQueries>(qs + kQueries * kLd, dy + unit.at(p.y, i0), p.y.token, unit.queries - i0,
                                    p.value_width);
    commit_copies();
    if (thread_index() < kQueries) {
      const int i = i0 + thread_index();
      rows[thread_index()] = i < unit.queries ? lse[unit.row(p, i)] : 0.0f;
      rows[kQueries + thread_index()] = i < unit.queries ? rest[unit.row(p, i)] : 0.0f;
      rows[2 * kQueries + thread_index()] = i < unit.queries ? d[unit.row(p, i)] : 0.0f;
    }
  }
};

// Computes dq of 64 queries in a loop over the keys. It runs before AttentionGradKeys, because it also computes d, the
// dot products of y and dy, which AttentionGradKeys reads.
template <DType type, int D, class Kind>
struct AttentionGradQueries : AttentionTiles<type, D> {
  using Tiles = AttentionTiles<type, D>;
  using Tiles::kLd, Tiles::kChunks;
  static constexpr bool cooperative = true;
  static constexpr int max_threads = Tiles::kThreads, min_blocks = Kind::masks ? 2 : 0, kKeys = D <= 64 ? 64 : 32,
                       kFragments = kKeys / 8;
  static constexpr int64_t kShared = (2 * kAttentionRows + 4 * kKeys) * kLd * 2 + 2 * kKeys * 4;

  AttentionProblem p;
  const uint16_t *q, *k, *v, *y, *dy;
  const float *lse, *rest;
  float* d;
  uint16_t* dq;
  int tiles;

  DEV void operator()() const {
    const AttentionUnit unit(p, block_index() / tiles);
    const int i0 = static_cast<int>(block_index() % tiles) * kAttentionRows;
    if (i0 >= unit.queries) return;
    const AttentionDropout dropout(p, unit);
    uint16_t* const qs = shared_memory<uint16_t>();
    uint16_t* const dys = qs + kAttentionRows * kLd;
    uint16_t* const stages = dys + kAttentionRows * kLd;                        // two stages, each with keys and values
    float* const columns = reinterpret_cast<float*>(stages + 4 * kKeys * kLd);  // two stages of the keys' mask values

    const auto fetch = [&](int j0, int stage) {
      fetch_keys(unit, j0, stages + 2 * stage * kKeys * kLd, columns + stage * kKeys);
    };
    Tiles::template fetch<kAttentionRows>(qs, q + unit.at(p.q, i0), p.q.token, unit.queries - i0, p.width);
    Tiles::template fetch<kAttentionRows>(dys, dy + unit.at(p.y, i0), p.y.token, unit.queries - i0, p.value_width);
    commit_copies();
    if (unit.keys > 0) fetch(0, 0);
    const int i = i0 + warp() * 16 + tile_row();
    AttentionRow rows[2];
    fetch_rows(unit, i, rows);
    TileC sum[kChunks];
    unrolled<kChunks>([&](auto c) { sum[c] = {}; });

    int stage = 0;
    for (int j0 = 0; j0 < unit.keys; j0 += kKeys, stage ^= 1) {
      await_copies<0>();
      sync_threads();
      if (j0 + kKeys < unit.keys) fetch(j0 + kKeys, stage ^ 1);
      const uint16_t* const ks = stages + 2 * stage * kKeys * kLd;
      const float* const column = columns + stage * kKeys;
      TileC z[kFragments], g[kFragments];
      Tiles::scores(z, qs, ks);
      Tiles::scores(g, dys, ks + kKeys * kLd);
      uint32_t kept = 0xffffffffu;
      if constexpr (Kind::drops)
        kept = Tiles::template kept_by_query<kFragments>(dropout, p.in_fours, i - tile_row(), j0);
      const auto element = [&](auto f, auto e) {
        const int at = f * 8 + tile_column() + e % 2;
        g[f].v[e] = slope(unit, i + e / 2 * 8, j0 + at, z[f].v[e], g[f].v[e], column + at, rows[e / 2],
                          (kept >> (4 * f + e) & 1) != 0);
      };
      unrolled<kFragments>([&](auto f) { unrolled<4>([&](auto e) { element(f, e); }); });
      Tiles::accumulate(sum, g, ks);
    }
    await_copies<0>();
    // The destination is computed again here, because keeping it through the loop would cost registers.
    const int64_t block = recomputed(block_index());
    const AttentionUnit to(p, block / tiles);
    const int first = static_cast<int>(block % tiles) * kAttentionRows;
    Tiles::store_result(sum, p.scale, p.scale, qs, dq + to.at(p.q, first), p.q.token, to.queries - first, p.width);
  }

 private:
  // Returns ds of one query and key; 0 if either is beyond the last. z, g: the element's products of q and k, and of dy
  // and v. column: the key's mask value, read if the mask is per key.
  DEV float slope(const AttentionUnit& unit, int query, int j, float z, float g, const float* column,
                  const AttentionRow& row, bool kept) const {
    if (query >= unit.queries || j >= unit.keys) return 0;
    float x = scaled(z, p.scale), m = 0;
    if constexpr (Kind::masks) {
      if (p.per_key())
        m = *column;
      else if (p.mask)
        m = mask_value(p, unit.mask_at(p, query, j));
      x = masked(p, x, m);
    }
    return attention_slope(x, g, row, kept, Kind::drops ? p.keep : 1.0f, Kind::masks && p.hides() && m == 0).ds;
  }
  // Reads lse and rest of this thread's two rows, and computes and stores d of these rows. Four neighboring threads
  // share a row.
  DEV void fetch_rows(const AttentionUnit& unit, int i, AttentionRow (&rows)[2]) const {
    Ref of_y, of_dy;
    of_y.data = const_cast<uint16_t*>(y), of_dy.data = const_cast<uint16_t*>(dy);
    of_y.type = of_dy.type = type;
    for (int r = 0; r < 2; ++r) {
      const int row = i + 8 * r;
      const bool mine = row < unit.queries;
      float sum = 0;
      const int64_t at = mine ? unit.at(p.y, row) : 0;
      for (int h = lane() % 4 * 4; mine && h < p.value_width; h += 16) {
        float a[4], b[4];
        load_some<4>(of_y, at + h, a);
        load_some<4>(of_dy, at + h, b);
        for (int w = 0; w < 4; ++w) sum += b[w] == 0 ? 0.0f : a[w] * b[w];
      }
      for (int m = 2; m > 0; m >>= 1) sum += shuffle_xor(sum, m);
      if (!mine) continue;
      rows[r] = {lse[unit.row(p, row)], rest[unit.row(p, row)], sum};
      if (lane() % 4 == 0) d[unit.row(p, row)] = sum;
    }
  }
  // Fetches the keys from j0 on and their values to ks, and their mask values to column.
  DEV void fetch_keys(const AttentionUnit& unit, int j0, uint16_t* ks, float* column) const {
    Tiles::template fetch<kKeys>(ks, k + unit.at(p.k, j0), p.k.token, unit.keys - j0, p.width);
    Tiles::template fetch<kKeys>(ks + kKeys * kLd, v + unit.at(p.v, j0), p.v.token, unit.keys - j0, p.value_width);
    commit_copies();
    if (Kind::masks && p.per_key() && thread_index() < kKeys) {
      const int j = j0 + thread_index();
      column[thread_index()] = j < unit.keys ? mask_value(p, unit.mask_at(p, 0, j)) : 0.0f;
    }
  }
};

}  // namespace amp::cuda
