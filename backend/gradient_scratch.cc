#include "backend/gradient_scratch.h"

#include <algorithm>

namespace amp {

namespace {

int64_t padded(const BufferLife& b) { return (b.bytes + 63) / 64 * 64; }
bool together(const BufferLife& a, const BufferLife& b) { return a.first <= b.last && b.first <= a.last; }

class Scratch {
 public:
  Scratch(std::vector<BufferLife>& buffers, std::vector<ScratchSpan> spans)
      : buffers_(buffers), spans_(std::move(spans)), tried_(buffers.size(), false) {
    std::sort(spans_.begin(), spans_.end(),
              [](const ScratchSpan& a, const ScratchSpan& b) { return a.begin < b.begin; });
  }

  void run() {
    while (true) {
      const std::vector<size_t> busiest = untried_at_peak();
      if (busiest.empty()) return;
      for (const size_t i : busiest) {
        tried_[i] = true;
        if (place(buffers_[i])) placed_.push_back(i);
      }
    }
  }

 private:
  // What is not in the spans and lives where most bytes of that do, as far as no place was sought for it yet.
  std::vector<size_t> untried_at_peak() const {
    int32_t steps = 0;
    for (const BufferLife& b : buffers_) steps = std::max(steps, b.last + 1);
    std::vector<int64_t> change(static_cast<size_t>(steps) + 1, 0);
    for (const BufferLife& b : buffers_) {
      if (b.place) continue;
      change[static_cast<size_t>(b.first)] += padded(b);
      change[static_cast<size_t>(b.last) + 1] -= padded(b);
    }
    int64_t live = 0, most = 0;
    int32_t peak = 0;
    for (int32_t s = 0; s < steps; ++s) {
      live += change[static_cast<size_t>(s)];
      if (live > most) most = live, peak = s;
    }
    std::vector<size_t> out;
    for (size_t i = 0; i < buffers_.size(); ++i) {
      const BufferLife& b = buffers_[i];
      if (!b.place && !tried_[i] && b.bytes > 0 && b.first <= peak && peak <= b.last) out.push_back(i);
    }
    std::stable_sort(out.begin(), out.end(), [&](size_t a, size_t b) {
      const BufferLife &x = buffers_[a], &y = buffers_[b];
      return x.last != y.last ? x.last > y.last : x.bytes > y.bytes;
    });
    return out;
  }

  // Where the spans it covers are written earliest: what dies later has fewer places.
  bool place(BufferLife& b) {
    std::vector<const BufferLife*> others;
    for (const size_t i : placed_) {
      if (together(buffers_[i], b)) others.push_back(&buffers_[i]);
    }
    int32_t best = INT32_MAX;
    const auto consider = [&](char* at) {
      const int32_t until = written(at, padded(b), b.last);
      if (until < 0 || until >= best) return;
      for (const BufferLife* o : others) {
        if (at < o->place + padded(*o) && o->place < at + padded(b)) return;
      }
      best = until;
      b.place = at;
    };
    for (const ScratchSpan& s : spans_) consider(s.begin);
    for (const BufferLife* o : others) consider(o->place + padded(*o));
    return b.place != nullptr;
  }

  // When the last of [at, at + bytes) is written; -1: some of it before `last` has passed, or no span has it.
  int32_t written(char* at, int64_t bytes, int32_t last) const {
    auto s =
        std::upper_bound(spans_.begin(), spans_.end(), at, [](char* p, const ScratchSpan& x) { return p < x.begin; });
    if (s == spans_.begin()) return -1;
    char* const end = at + bytes;
    int32_t until = -1;
    for (--s; s != spans_.end() && s->begin <= at && at < s->begin + s->bytes; ++s) {
      if (s->until <= last) return -1;
      until = std::max(until, s->until);
      at = s->begin + s->bytes;
      if (at >= end) return until;
    }
    return -1;
  }

  std::vector<BufferLife>& buffers_;
  std::vector<ScratchSpan> spans_;  // by address
  std::vector<bool> tried_;
  std::vector<size_t> placed_;
};

}  // namespace

void place_in_gradients(std::vector<BufferLife>& buffers, std::vector<ScratchSpan> spans) {
  Scratch(buffers, std::move(spans)).run();
}

}  // namespace amp
