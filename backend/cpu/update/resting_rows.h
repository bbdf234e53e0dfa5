// Rows of tables, such as embeddings, that no sample has touched: their gradients have been zero in every step, so that
// their moments still are. What an update rule makes of such a row comes without reading or writing gradients and
// moments: the same bits, at a third of the memory traffic, or none where there is no decay.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <vector>

#include "backend/cpu/update/update_loops.h"
#include "backend/update.h"

namespace amp {

class RestingRows {
 public:
  explicit RestingRows(const std::vector<UpdateSpan>& spans);

  bool watches(size_t span) const { return tables_[span].row > 0; }
  // Elements [begin, begin + count) of all gradients, of one span: rows that are not zero there rest no more. What
  // inspect() says of them, row by row. This and what follows: for several threads.
  template <class T>
  kernel::ShardStats inspect(size_t span, int64_t begin, int64_t count, const T* grads);
  template <class T>
  void inspect_moments(size_t span, int64_t begin, int64_t count, const T* moments);  // the same of moments
  void wake(size_t span, int64_t begin, int64_t count);                               // as if none of them were zero
  // Calls f(from, to) for the rows of a run that is moved whose moments are still zero.
  template <class F>
  void each_new_row(size_t span, int64_t begin, int64_t count, const F& f) {
    each_row(span, begin, count, [&](std::atomic_ref<uint8_t> state, int64_t from, int64_t to) {
      const uint8_t was = state.load(std::memory_order_relaxed);
      if (was == kOld) return;
      f(from, to);
      if (was == kNew) state.store(kOld, std::memory_order_relaxed);
    });
  }

  // Calls f(begin, count, resting) for the parts of those elements, in order. A few resting rows between others are
  // not told from them.
  template <class F>
  void each_run(size_t span, int64_t begin, int64_t count, const F& f) const {
    constexpr int64_t kFew = 4;
    const Table& t = tables_[span];
    const int64_t end = begin + count;
    const auto end_of = [&](int64_t row) { return std::min(end, t.begin + (row + 1) * t.row); };
    for (int64_t at = begin; at < end;) {
      const int64_t first = (at - t.begin) / t.row, last = (end - 1 - t.begin) / t.row;
      int64_t asleep = 0;
      while (first + asleep <= last && !t.awake(first + asleep)) ++asleep;
      if (asleep >= kFew || first + asleep > last) {
        const int64_t stop = end_of(first + asleep - 1);
        f(at, stop - at, true);
        at = stop;
        continue;
      }
      int64_t row = first + asleep;
      for (int64_t pause = 0; row <= last && pause < kFew; ++row) pause = t.awake(row) ? 0 : pause + 1;
      while (!t.awake(row - 1)) --row;
      const int64_t stop = end_of(row - 1);
      f(at, stop - at, false);
      at = stop;
    }
  }

 private:
  static constexpr uint8_t kResting = 0, kNew = 1, kOld = 2;  // kNew: its moments are zero all the same
  struct Table {
    int64_t begin = 0, row = 0;           // elements; row 0: not watched
    mutable std::vector<uint8_t> states;  // by row; several threads' at the ends of their parts
    std::atomic_ref<uint8_t> state(int64_t at) const { return std::atomic_ref(states[static_cast<size_t>(at)]); }
    bool awake(int64_t at) const { return state(at).load(std::memory_order_relaxed) != kResting; }
  };
  // f(row's state, elements from, to) for the rows that those elements touch.
  template <class F>
  void each_row(size_t span, int64_t begin, int64_t count, const F& f) {
    const Table& t = tables_[span];
    for (int64_t at = begin; at < begin + count;) {
      const int64_t row = (at - t.begin) / t.row, stop = std::min(begin + count, t.begin + (row + 1) * t.row);
      f(t.state(row), at, stop);
      at = stop;
    }
  }

  std::vector<Table> tables_;  // by span
};

}  // namespace amp
