// What a person sees of a run: on a terminal one line rewritten in place, elsewhere a plain line every few steps.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "run/host.h"

namespace amp {

std::string format_duration(double seconds);  // "01:31", "2:03:04"; "--:--" when unknown
double seconds_left(const ProgressState& s);  // NaN when unknown

// The course of a value, in a bounded number of means over equally many steps.
class Course {
 public:
  void add(double value);  // what is not finite is left out
  // In so many columns, the lowest mean as the lowest of eight blocks: "█▆▄▃▂▁▁".
  std::string sparkline(int columns) const;

 private:
  static constexpr size_t kMost = 256;
  int64_t each_ = 1, in_last_ = 0;  // values of a mean, and those in the last one so far
  std::vector<double> sums_;
};

// " 12%|####      | 30/250 [00:12<01:31, 41.2 samples/s] loss 0.4312 █▆▄▃▂ lr 9.2e-05 472 MiB skipped 1"
// At most width columns: what matters least is left out first, at 40 it is "30/250 <01:31 41.2/s loss 0.431 skip 1".
// loss: null where the terminal has no blocks.
std::string progress_bar(const ProgressState& s, int width, const Course* loss = nullptr);
// "step 30/250  epoch 0.12  loss 0.4312  lr 9.2e-05  41.2 samples/s  elapsed 00:12  left 01:31  472 MiB  skipped 1"
std::string progress_line(const ProgressState& s);
int display_width(const std::string& text);  // columns of UTF-8 text whose characters are one wide

// What clears a line of `columns` on a terminal that is `width` wide now. One that became narrower has wrapped it,
// where it wraps again what it shows (reflows): then the cursor goes up first.
std::string clear_line(int columns, int width, bool reflows);

class Progress {
 public:
  // every: steps between plain lines. The bar is redrawn ten times a second at most.
  explicit Progress(std::FILE* out = stderr, int64_t every = 50);
  Progress(std::FILE* out, int64_t every, bool bar, int width, bool blocks = false);  // as told, whatever out is
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress() { done(); }

  void update(const ProgressState& s);    // after each step
  void message(const std::string& text);  // a line of its own; the bar moves below it
  void done();                            // leaves the last state standing
  bool shows_bar() const { return shown_; }

 private:
  void draw();
  int columns() const;
  void clear() const;
  std::FILE* out_;
  int64_t every_;
  bool bar_;
  int width_;
  bool blocks_;
  int drawn_ = 0;  // columns of the bar that stands there
  bool shown_ = false, stale_ = false, any_ = false;
  double drawn_at_ = 0;
  ProgressState last_;
  Course loss_;
};

}  // namespace amp
