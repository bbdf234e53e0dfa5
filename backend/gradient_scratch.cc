// place_in_gradients() places activations in the gradient arena with a greedy algorithm. It takes the node at which
// most bytes are live, and moves the buffers that are live at this node into spans, those with the latest last use
// first. Then it repeats this with the node at which most bytes are live now.

#include "backend/gradient_scratch.h"

#include <algorithm>

namespace amp {

namespace {

constexpr int64_t kWorthwhile = 100;  // the search ends after a round that frees less than 1/100 of the peak

class Scratch {
 public:
  Scratch(std::vector<BufferLife>& buffers, std::vector<ScratchSpan> spans)
      : buffers_(buffers), spans_(std::move(spans)), tried_(buffers.size(), false) {
    std::sort(spans_.begin(), spans_.end(),
              [](const ScratchSpan& a, const ScratchSpan& b) { return a.begin < b.begin; });
  }

  void run() {
    int32_t latest = 0;
    for (const ScratchSpan& s : spans_) latest = std::max(latest, s.until);
    for (int64_t gained = 1, most = 0; gained * kWorthwhile >= most;) {
      const std::vector<size_t> busiest = untried_at_peak(most);
      gained = 0;
      for (const size_t i : busiest) {
        tried_[i] = true;
        if (buffers_[i].last < latest && place(buffers_[i])) gained += buffers_[i].padded();
      }
      if (gained == 0) return;
    }
  }

 private:
  // Returns buffers that are alive at the node with the most live bytes, are not in a span, and were not tried before.
  // Sets `most` to the live bytes at this node.
  std::vector<size_t> untried_at_peak(int64_t& most) const {
    int32_t steps = 0;
    for (const BufferLife& b : buffers_) steps = std::max(steps, b.last + 1);
    std::vector<int64_t> change(static_cast<size_t>(steps) + 1, 0);
    for (const BufferLife& b : buffers_) {
      if (b.place) continue;
      change[static_cast<size_t>(b.first)] += b.padded();
      change[static_cast<size_t>(b.last) + 1] -= b.padded();
    }
    int64_t live = 0;
    int32_t peak = 0;
    most = 0;
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

  // Places the buffer in the free spans that are written earliest, because the other spans are needed for buffers that
  // live longer. Returns false if no free spans fit.
  bool place(BufferLife& b) {
    std::vector<const BufferLife*> others;  // sorted by address
    std::vector<char*> end;                 // running maximum of the ends of `others`
    for (const BufferLife* o : placed_) {
      if (!o->meets(b)) continue;
      others.push_back(o);
      end.push_back(std::max(o->place + o->padded(), end.empty() ? nullptr : end.back()));
    }
    int32_t best = INT32_MAX;
    const auto consider = [&](char* at, std::vector<ScratchSpan>::const_iterator span) {
      if (span->until <= b.last || span->until >= best) return;
      const auto beyond =
          static_cast<size_t>(std::lower_bound(others.begin(), others.end(), at + b.padded(), before) - others.begin());
      if (beyond > 0 && end[beyond - 1] > at) return;
      const int32_t until = written(at, span, b.padded(), b.last);
      if (until < 0 || until >= best) return;
      best = until;
      b.place = at;
    };
    for (auto s = spans_.cbegin(); s != spans_.cend(); ++s) consider(s->begin, s);
    auto s = spans_.cbegin();
    for (char* const at : end) {
      while (s != spans_.cend() && s->begin + s->bytes <= at) ++s;
      if (s == spans_.cend()) break;
      if (s->begin <= at) consider(at, s);
    }
    if (!b.place) return false;
    placed_.insert(std::lower_bound(placed_.begin(), placed_.end(), b.place, before), &b);
    return true;
  }
  static bool before(const BufferLife* o, const char* at) { return o->place < at; }

  // Returns the index of the node that writes the last of the gradients in [at, at + bytes), which begins in span s.
  // Returns -1 if one of these gradients is written before node `last` has run, or if a part of the range is outside of
  // the spans.
  int32_t written(char* at, std::vector<ScratchSpan>::const_iterator s, int64_t bytes, int32_t last) const {
    char* const end = at + bytes;
    int32_t until = -1;
    for (; s != spans_.end() && s->begin <= at && at < s->begin + s->bytes; ++s) {
      if (s->until <= last) return -1;
      until = std::max(until, s->until);
      at = s->begin + s->bytes;
      if (at >= end) return until;
    }
    return -1;
  }

  std::vector<BufferLife>& buffers_;
  std::vector<ScratchSpan> spans_;  // sorted by address
  std::vector<bool> tried_;
  std::vector<const BufferLife*> placed_;  // sorted by address
};

}  // namespace

void place_in_gradients(std::vector<BufferLife>& buffers, std::vector<ScratchSpan> spans) {
  Scratch(buffers, std::move(spans)).run();
}

}  // namespace amp
