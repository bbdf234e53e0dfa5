// Row kernels (rows.cuh) that read a row once and keep it in registers, if it is short enough and a multiple of four.
#pragma once

#include "backend/cuda/raw.cuh"
#include "backend/cuda/rows.cuh"

namespace amp::cuda {

// A thread's part of a row, W elements at a time. V > 0: V groups of four, read once and kept in registers. V = 0:
// single elements, read again in every pass. R: Ref, or a TypedRef (typed.cuh).
template <int V, class R = Ref>
struct RowPart {
  static constexpr int W = V > 0 ? 4 : 1, kGroups = V > 0 ? V : 1;
  R x;
  int64_t at;
  Raw<float, W> held[kGroups];

  // If ref is empty, nothing is read, and get() must not be called.
  DEV RowPart(const R& ref, int64_t start, int64_t n, const RowTeam& team) : x(ref), at(start) {
    if constexpr (V > 0) {
      if (x) each(n, team, [&](auto g, int64_t i) { held[g] = fetch<float, W>(x, at + i); });
    }
  }
  DEV void get(int g, int64_t i, float (&v)[W]) const {
    if constexpr (V > 0)
      unpack(x, held[g], v);
    else
      v[0] = load<float>(x, at + i);
  }
  // Calls f(group, i) for each of this thread's groups. i is the group's first element in the row.
  template <class F>
  static DEV void each(int64_t n, const RowTeam& team, F f) {
    if constexpr (V > 0) {
      unrolled<V>([&](auto g) {
        const int64_t i = 4 * (team.first() + g * team.step());
        if (i < n) f(g, i);
      });
    } else {
      for (int64_t i = team.first(); i < n; i += team.step()) f(std::integral_constant<int, 0>{}, i);
    }
  }
};

// Returns make(V), a Kernel, for rows of length n. V is the number of groups of four elements per thread, rounded up to
// a compiled number; 0 if rows are not kept in registers.
template <class Make>
Kernel by_length(int64_t n, const Make& make) {
  const int64_t groups = n % 4 == 0 ? (n / 4 + team_size(n) - 1) / team_size(n) : 0;
  if (groups == 0 || groups > 8) return make(std::integral_constant<int, 0>{});
  if (groups <= 2) return make(std::integral_constant<int, 2>{});
  if (groups <= 4) return make(std::integral_constant<int, 4>{});
  return make(std::integral_constant<int, 8>{});
}
}  // namespace amp::cuda
