// Software prefetch of cache lines, a few at a time between other work, for rows that are far apart, where the
// hardware prefetcher detects no pattern.
#pragma once

#include <algorithm>
#include <cstdint>

namespace amp::cpu {

class LinePrefetch {
 public:
  // Adds `rows` rows of `bytes` bytes, `stride` bytes apart. Calls after the first kMost have no effect.
  void add(const void* data, int64_t stride, int64_t rows, int64_t bytes) {
    if (count_ == kMost || rows <= 0 || bytes <= 0) return;
    const auto first = reinterpret_cast<uintptr_t>(data) / kLine,
               last = (reinterpret_cast<uintptr_t>(data) + static_cast<uintptr_t>(bytes) - 1) / kLine;
    part_[count_++] = {static_cast<const char*>(data), stride, rows, static_cast<int64_t>(last - first + 1)};
    lines_ += rows * part_[count_ - 1].lines;
  }
  // Distributes the prefetches of all added cache lines over this many calls of operator().
  void spread(int64_t calls) { per_call_ = (lines_ + calls - 1) / std::max<int64_t>(1, calls); }
  void operator()() {
    for (int64_t left = per_call_; left > 0 && at_ < count_;) {
      Part& p = part_[at_];
      for (int64_t l = 0; l < p.lines; ++l) __builtin_prefetch(p.data + l * kLine, 0, 2);
      left -= p.lines;
      p.data += p.stride;
      if (--p.rows == 0) ++at_;
    }
  }

 private:
  static constexpr int64_t kMost = 12;
  static constexpr uintptr_t kLine = 64;
  struct Part {
    const char* data;
    int64_t stride, rows, lines;
  };
  Part part_[kMost] = {};
  int64_t count_ = 0, at_ = 0, lines_ = 0, per_call_ = 0;
};

}  // namespace amp::cpu
