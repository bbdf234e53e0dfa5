// Products of few rows with a fixed right-hand side (repeated_product.h). Pieces of 64 columns are distributed over
// threads; each thread keeps its pieces in cache from call to call.

#include "backend/cpu/gemm/repeated_product.h"

#include "backend/cpu/gemm/gemm.h"
#include "backend/rows.h"

namespace amp::cpu {

template <class T>
RepeatedProduct<T>::RepeatedProduct(Carver& carve, DType stored, int64_t parts, int64_t n, int64_t k, bool transposed)
    : panels_(stored), stored_(stored), parts_(parts), n_(n), k_(k), transposed_(transposed) {
  if constexpr (std::is_same_v<T, float>)
    packed_ = carve.take<float>((n + kColumns - 1) / kColumns * parts * panel_floats());
  else
    b_ = carve.take<T>(parts * k * n);
}

template <class T>
void RepeatedProduct<T>::pack(const void* b) const {
  if constexpr (std::is_same_v<T, float>) {
    parallel_for((n_ + kColumns - 1) / kColumns * parts_, [&](int64_t s) {
      const int64_t part = s % parts_, first = s / parts_ * kColumns;
      const void* const from = Stored(b, stored_).at(part * k_ * n_ + first * (transposed_ ? k_ : 1));
      panels_.pack({from, stored_, transposed_ ? k_ : n_, transposed_}, columns(first), k_,
                   packed_ + s / parts_ * parts_ * panel_floats() + part * panels_.panel_floats(columns(first), k_));
    });
  } else {
    convert(stored_, b, DTypeOf<T>::value, b_, parts_ * k_ * n_);
  }
}

// Returns the number of threads that get at least ten microseconds of work each. Waking a thread takes a few
// microseconds.
template <class T>
int64_t RepeatedProduct<T>::most_threads(int64_t rows) const {
  return std::clamp<int64_t>(rows * parts_ * n_ * (k_ + 64) / 500'000, 1, omp_get_max_threads());
}

// Returns rows [begin, end) in the form that multiply() takes. fp64 rows are used in place.
template <class T>
PanelProduct::Left RepeatedProduct<T>::ready(const Stored& a, int64_t lda, int64_t begin, int64_t end) const {
  if (!a || !std::is_same_v<T, float>) return {a.at(begin * lda), lda * static_cast<int64_t>(sizeof(T) / 4), true};
  const int64_t rows = end - begin, steps = panels_.steps(k_);
  PanelProduct::Left left{a.at(begin * lda), pairs() ? lda / 2 : lda, true};
  // Pairs need an even number of elements per row.
  if (pairs() && (a.dtype != DType::bf16 || lda % 2 != 0 || k_ % 2 != 0)) {
    uint16_t* const rounded = thread_scratch<uint16_t>(rows * 2 * steps, 0);
    for (int64_t r = 0; r < rows; ++r) {
      convert(a.dtype, a.at((begin + r) * lda), DType::bf16, rounded + r * 2 * steps, k_);
      if (k_ % 2 != 0) rounded[r * 2 * steps + k_] = 0;
    }
    left = {rounded, steps, true};
  }
  const int64_t floats = panels_.ready_floats(rows, steps);
  return panels_.ready(left, rows, steps, floats > 0 ? tile_scratch(floats) : nullptr);
}

template <class T>
ProductPiece<T> RepeatedProduct<T>::multiply(const PanelProduct::Left& a, ProductPiece<T> piece,
                                             LinePrefetch& ahead) const {
  const int64_t rows = piece.end - piece.begin, n = piece.last - piece.first;
  piece.part = panels_.padded(n);
  piece.row = parts_ * piece.part;
  T* const sums = thread_scratch<T>(rows * piece.row, 2);
  piece.sums = sums;
  if constexpr (std::is_same_v<T, float>) {
    const int64_t steps = panels_.steps(k_),
                  inner = pairs() ? steps : 256;  // steps at a time; their part of a panel stays in the L1 cache
    const PanelProduct::Right right{packed_ + piece.first / kColumns * parts_ * panel_floats(), steps,
                                    panel_floats() / kColumns};
    ahead.spread((steps + inner - 1) / inner * panels_.blocks(rows, piece.row, inner));
    for (int64_t s = 0; s < steps; s += inner) {
      const PanelProduct::Left deep{static_cast<const float*>(a.data) + s, a.ld, true, a.packed};
      panels_.run(deep, rows, right, {s, std::min(steps, s + inner), 0, piece.row}, sums, piece.row, s > 0, ahead);
    }
  } else {
    for (int64_t p = 0; p < parts_; ++p) {
      const T* const from = b_ + p * k_ * n_ + piece.first * (transposed_ ? k_ : 1);
      gemm(false, transposed_, rows, n, k_, T(1), static_cast<const T*>(a.data), a.ld / 2, from, transposed_ ? k_ : n_,
           T(0), sums + p * piece.part, piece.row);
    }
  }
  return piece;
}

template class RepeatedProduct<float>;
template class RepeatedProduct<double>;

}  // namespace amp::cpu
