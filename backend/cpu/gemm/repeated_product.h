// Repeated products of few rows with the same right-hand side: the state of a recurrent layer times its weights, at
// every time step. The right-hand side is packed once. Weights in bf16 are multiplied as bf16 if the CPU supports it
// (sums are fp32). Results have the same bits for any number of threads.
#pragma once

#include <algorithm>

#include "backend/cpu/gemm/panel_product.h"
#include "backend/cpu/stored.h"
#include "backend/cpu/workspace.h"

namespace amp::cpu {

// A piece of a product that one thread has computed: rows [begin, end) and columns [first, last) of the products with
// each of the `parts` matrices of b (RepeatedProduct).
template <class T>
struct ProductPiece {
  int64_t begin, end, first, last;
  const T* sums;      // null if run() has no left-hand side
  int64_t row, part;  // elements between rows, and between the products with consecutive matrices
  const T* at(int64_t r, int64_t p) const { return sums ? sums + (r - begin) * row + p * part : nullptr; }
};

template <class T>
class RepeatedProduct {
 public:
  static constexpr int64_t kColumns = 64;  // columns per piece; the last piece has fewer

  // Takes workspace for b: `parts` consecutive matrices (k, n), or (n, k) if transposed, of type `stored`.
  RepeatedProduct(Carver& carve, DType stored, int64_t parts, int64_t n, int64_t k, bool transposed);
  DType left() const { return pairs() ? DType::bf16 : DTypeOf<T>::value; }  // type in which rows of a are multiplied
  void pack(const void* b) const;                                           // packs b on all threads

  // Multiplies a (rows, k), whose rows are `lda` apart and stored in T or in left(). If a is null, nothing is
  // multiplied. Calls done(piece) for each piece, on the thread that computed it. reverse: processes pieces in the
  // opposite order; if every other call sets it, the packed weights that were used last are still in cache. all_rows: a
  // thread gets all rows of its columns, in order. ask(piece, ahead) adds the data that `done` will read to the
  // prefetches that run during the multiplication.
  template <class F, class Ask>
  void run(const Stored& a, int64_t lda, int64_t rows, bool reverse, bool all_rows, const F& done,
           const Ask& ask) const {
    const int64_t threads = most_threads(rows), pieces = (n_ + kColumns - 1) / kColumns,
                  across = std::min(threads, pieces),
                  down = all_rows ? 1 : std::clamp<int64_t>(threads / across, 1, (rows + 15) / 16);
    parallel_team(across * down, [&](int64_t s) {
      const int64_t begin = rows * (s / across) / down, end = rows * (s / across + 1) / down,
                    first = pieces * (s % across) / across, last = pieces * (s % across + 1) / across;
      const PanelProduct::Left left = ready(a, lda, begin, end);
      for (int64_t i = first; i < last; ++i) {
        const int64_t at = (reverse ? first + last - 1 - i : i) * kColumns;
        for (int64_t r = begin; r < end; r += kRows) {
          const ProductPiece<T> piece{r, std::min(end, r + kRows), at, std::min(n_, at + kColumns), nullptr, 0, 0};
          LinePrefetch ahead;
          if (a) ask(piece, ahead);
          done(a ? multiply(left.from_row(r - begin), piece, ahead) : piece);
        }
      }
    });
  }
  template <class F>
  void run(const Stored& a, int64_t lda, int64_t rows, bool reverse, bool all_rows, const F& done) const {
    run(a, lda, rows, reverse, all_rows, done, [](const ProductPiece<T>&, LinePrefetch&) {});
  }

 private:
  static constexpr int64_t kRows = 64;  // maximal rows per piece
  bool pairs() const { return std::is_same_v<T, float> && panels_.pairs(); }
  int64_t most_threads(int64_t rows) const;
  PanelProduct::Left ready(const Stored& a, int64_t lda, int64_t begin, int64_t end) const;
  ProductPiece<T> multiply(const PanelProduct::Left& a, ProductPiece<T> piece, LinePrefetch& ahead) const;
  int64_t columns(int64_t first) const { return std::min(kColumns, n_ - first); }
  int64_t panel_floats() const { return panels_.panel_floats(kColumns, k_); }

  PanelProduct panels_;
  DType stored_;
  int64_t parts_, n_, k_;
  bool transposed_;
  float* packed_ = nullptr;  // panels of each piece's columns, [piece][matrix of b]
  T* b_ = nullptr;           // a copy of b, which is not packed if T is double
};

}  // namespace amp::cpu
