// Zero-gradient rows of tables such as embeddings: no sample has used them so far, so their gradients and moments are
// zero. Such rows are updated without accessing gradients and moments. The results have the same bits. The memory
// traffic falls to a third, or to zero without weight decay.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <vector>

#include "backend/cpu/update/update_loops.h"
#include "backend/update.h"

namespace amp {

class ZeroGradientRows {
 public:
  explicit ZeroGradientRows(const std::vector<UpdateSpan>& spans);

  bool watches(size_t span) const { return tables_[span].row > 0; }
  // Inspects elements [begin, begin + count) of all gradients, which belong to one span. Rows with a nonzero gradient
  // become normal rows. Returns what kernel::inspect() returns, computed row by row. The functions that take a span may
  // be called by several threads.
  template <class T>
  kernel::ShardStats inspect(size_t span, int64_t begin, int64_t count, const T* grads);
  template <class T>
  void inspect_moments(size_t span, int64_t begin, int64_t count, const T* moments);  // like inspect(), for moments
  void mark_nonzero(size_t span, int64_t begin, int64_t count);                       // marks the rows as nonzero
  // Calls f(from, to) for rows that are updated as normal rows but whose moments are still zero.
  template <class F>
  void each_new_row(size_t span, int64_t begin, int64_t count, const F& f) {
    each_row(span, begin, count, [&](std::atomic_ref<uint8_t> state, int64_t from, int64_t to) {
      const uint8_t was = state.load(std::memory_order_relaxed);
      if (was == kOld) return;
      f(from, to);
      if (was == kNew) state.store(kOld, std::memory_order_relaxed);
    });
  }

  // Calls f(begin, count, zero) in order for runs of zero-gradient rows, and of other rows, in elements [begin, begin +
  // count). Short runs of zero-gradient rows between others are treated as normal rows.
  template <class F>
  void each_run(size_t span, int64_t begin, int64_t count, const F& f) const {
    constexpr int64_t kFew = 4;
    const Table& t = tables_[span];
    const int64_t end = begin + count;
    const auto end_of = [&](int64_t row) { return std::min(end, t.begin + (row + 1) * t.row); };
    for (int64_t at = begin; at < end;) {
      const int64_t first = (at - t.begin) / t.row, last = (end - 1 - t.begin) / t.row;
      int64_t zeros = 0;
      while (first + zeros <= last && !t.nonzero(first + zeros)) ++zeros;
      if (zeros >= kFew || first + zeros > last) {
        const int64_t stop = end_of(first + zeros - 1);
        f(at, stop - at, true);
        at = stop;
        continue;
      }
      int64_t row = first + zeros;
      for (int64_t pause = 0; row <= last && pause < kFew; ++row) pause = t.nonzero(row) ? 0 : pause + 1;
      while (!t.nonzero(row - 1)) --row;
      const int64_t stop = end_of(row - 1);
      f(at, stop - at, false);
      at = stop;
    }
  }

 private:
  // kNew: nonzero gradient, but moments are still zero; kOld: nonzero moments.
  static constexpr uint8_t kZero = 0, kNew = 1, kOld = 2;
  struct Table {
    int64_t begin = 0, row = 0;           // row: elements per row; 0: rows are not tracked
    mutable std::vector<uint8_t> states;  // indexed by row; a row may be in the shards of several threads
    std::atomic_ref<uint8_t> state(int64_t at) const { return std::atomic_ref(states[static_cast<size_t>(at)]); }
    bool nonzero(int64_t at) const { return state(at).load(std::memory_order_relaxed) != kZero; }
  };
  // Calls f(state of the row, begin, end) for each row that overlaps elements [begin, begin + count).
  template <class F>
  void each_row(size_t span, int64_t begin, int64_t count, const F& f) {
    const Table& t = tables_[span];
    for (int64_t at = begin; at < begin + count;) {
      const int64_t row = (at - t.begin) / t.row, stop = std::min(begin + count, t.begin + (row + 1) * t.row);
      f(t.state(row), at, stop);
      at = stop;
    }
  }

  std::vector<Table> tables_;  // indexed by span
};

}  // namespace amp
