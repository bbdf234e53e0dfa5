// Adds rows to given places (indices along the axis of extent n) of a tensor, as the gradient of a gather does. The
// tensor is set to zero first, unless RowSums::accumulate is set. The result has the same bits in every run.
//
// The rows are sorted by place and divided into pieces of sixteen rows, which are summed in parallel. If all rows of a
// place are in one piece, its sum is final. If they are in several pieces, the sums go to workspace, and the warps of
// one block add them up. This is fast even if one place has most of the rows, as the place of padding tokens may have.
#pragma once

#include "backend/cuda/divide.cuh"
#include "backend/cuda/raw.cuh"
#include "backend/cuda/sort.cuh"
#include "ops/cuda/indices.cuh"

namespace amp::cuda {

struct RowSums {
  Ref x, y;  // x (outer, k, inner) is added to y (outer, n, inner); fp32, fp16, bf16
  int64_t outer = 1, k = 0, n = 0, inner = 1;
  bool accumulate = false;          // whether the sums are added to y's values
  const uint64_t* words = nullptr;  // places of the k rows, sorted (sort_word); rows with place n are dropped
  // Partial sums (outer, pieces, 2, inner). Sum 0 of a piece is for a place that began in an earlier piece. Sum 1 is
  // for a place that begins in this piece and continues in the next.
  float* parts = nullptr;

  static constexpr int kPiece = 16;
  DEV void put(int64_t i, float sum) const { store(y, i, accumulate ? load<float>(y, i) + sum : sum); }
  HD int64_t pieces() const { return (k + kPiece - 1) / kPiece; }
  DEV float* part(int64_t o, int64_t piece, int which) const {
    return parts + ((o * pieces() + piece) * 2 + which) * inner;
  }
  // Returns whether sorted rows p - 1 and p have the same place.
  DEV bool joined(int64_t p) const { return p > 0 && p < k && key_of(words[p - 1]) == key_of(words[p]); }
  DEV int64_t end_of(int64_t piece) const { return (piece + 1) * kPiece < k ? (piece + 1) * kPiece : k; }
};

struct SumPieces {
  static constexpr int kAbreast = 4;  // rows that are loaded before the first is added, so that loads overlap
  RowSums s;
  Divisor inner, pieces;
  DEV void operator()(int64_t i) const {
    int64_t o = i;
    const int64_t column = inner.take(o), piece = pieces.take(o);
    const int64_t begin = piece * RowSums::kPiece, end = s.end_of(piece);
    bool before = s.joined(begin);
    float sum = 0;
    for (int64_t first = begin; first < end; first += kAbreast) {
      float v[kAbreast];
      read(o, column, first, end, v);
      unrolled<kAbreast>([&](auto j) {
        const int64_t p = first + j;
        const int64_t place = p < end ? static_cast<int64_t>(key_of(s.words[p])) : s.n;
        if (place >= s.n) return;  // dropped rows are sorted to the end
        sum += v[j];
        const bool goes_on = s.joined(p + 1);
        if (goes_on && p + 1 < end) return;
        if (before)
          s.part(o, piece, 0)[column] = sum;
        else if (goes_on)
          s.part(o, piece, 1)[column] = sum;
        else
          s.put((o * s.n + place) * s.inner + column, sum);
        before = false;
        sum = 0;
      });
    }
  }

 private:
  DEV void read(int64_t o, int64_t column, int64_t first, int64_t end, float (&v)[kAbreast]) const {
    const auto at = [&](int j) {
      const int64_t p = first + j < end ? first + j : end - 1;
      return (o * s.k + place_of(s.words[p])) * s.inner + column;
    };
    if (s.x.type == DType::f32) {
      unrolled<kAbreast>([&](auto j) { v[j] = static_cast<const float*>(s.x.data)[at(j)]; });
    } else {
      uint16_t h[kAbreast];
      unrolled<kAbreast>([&](auto j) { h[j] = static_cast<const uint16_t*>(s.x.data)[at(j)]; });
      unrolled<kAbreast>([&](auto j) { v[j] = s.x.type == DType::f16 ? half_to_float(h[j]) : bf16_to_float(h[j]); });
    }
  }
};

// Adds up the partial sums of each place that begins in one piece and continues in others. One thread block
// processes 32 columns of a place; its warps divide the pieces in which the place continues.
struct JoinPieces {
  static constexpr bool cooperative = true;
  static constexpr int kThreads = 256, kWarps = kThreads / 32;
  RowSums s;
  Divisor columns, pieces;
  int64_t items;
  DEV void operator()() const {
    float* const sums = shared_memory<float>();
    for (int64_t i = block_index(); i < items; i += grid_blocks()) {
      int64_t o = i;
      const int64_t column = columns.take(o) * 32 + lane(), piece = pieces.take(o);
      const int64_t end = s.end_of(piece), place = key_of(s.words[end - 1]);
      const bool all_one = s.joined(piece * RowSums::kPiece) && key_of(s.words[piece * RowSums::kPiece]) == place;
      if (!s.joined(end) || all_one || place >= s.n) continue;  // the same condition for all threads of the block
      const int64_t last = end - 1 + count_below(s.words, end, s.k, sort_word(place + 1, 0));
      float sum = 0;
      if (column < s.inner) {
        for (int64_t c = piece + 1 + warp(); c <= last / RowSums::kPiece; c += kWarps) sum += s.part(o, c, 0)[column];
      }
      sums[thread_index()] = sum;
      sync_threads();
      if (warp() == 0 && column < s.inner) {
        sum = s.part(o, piece, 1)[column];
        for (int w = 0; w < kWarps; ++w) sum += sums[w * 32 + lane()];
        s.put((o * s.n + place) * s.inner + column, sum);
      }
      sync_threads();
    }
  }
};

// Returns a kernel that adds row i to place(i), for i in [0, s.k). place(i) is in [0, s.n]; rows with place s.n
// are dropped. Prepare functions call this; it takes workspace from carver. Throws E_CUDA_SIZE (Exit::unsupported)
// for 2^32 or more places or rows.
template <class Place>
Kernel sum_rows(const KernelArgs& a, Carver& carver, RowSums s, const Place& place) {
  const Tensor& y = a.out[0];
  check(s.x.type == DType::f32 || is_low(s.x.type), "rows to add are fp32, fp16 or bf16");
  if (s.k == 0 || y.numel() == 0) {
    if (carver.measuring()) return {};
    if (s.accumulate) return [] {};
    return [d = a.device, y] { d->fill(y.data, 0, y.bytes()); };
  }
  if (s.n >= int64_t{1} << 32 || s.k >= int64_t{1} << 32)
    fail(Exit::unsupported, "E_CUDA_SIZE", cat(a.node.op->name, " on CUDA takes fewer than 2^32 places and rows"));
  const Sorted sorted = prepare_sort(static_cast<CudaDevice*>(a.device), carver, s.k, place);
  s.parts = carver.take<float>(checked_mul(checked_mul(s.outer, s.pieces()), checked_mul(2, s.inner)));
  if (carver.measuring()) return {};
  s.words = sorted.words;
  const SumPieces sum{s, Divisor(s.inner), Divisor(s.pieces())};
  const int64_t blocks = (s.inner + 31) / 32, items = s.outer * s.pieces() * blocks;
  const JoinPieces join{s, Divisor(blocks), Divisor(s.pieces()), items};
  return [&d = device_of(a), y, sorted, sum, join] {
    if (!sum.s.accumulate) d.fill(y.data, 0, y.bytes());
    sorted.sort();
    for_each(d, sum.s.outer * sum.s.pieces() * sum.s.inner, sum);
    if (sum.s.pieces() > 1)
      launch(d,
             {std::min<int64_t>(join.items, int64_t{d.multiprocessors()} * 16), JoinPieces::kThreads,
              JoinPieces::kThreads * 4},
             join);
  };
}

}  // namespace amp::cuda
