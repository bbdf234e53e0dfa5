// What a person sees of a run: on a terminal one line rewritten in place, elsewhere a plain line every few steps.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

#include "run/host.h"

namespace amp {

std::string format_duration(double seconds);  // "01:31", "2:03:04"; "--:--" when unknown
double seconds_left(const ProgressState& s);  // NaN when unknown

// " 12%|####      | 30/250 [00:12<01:31, 41.2 samples/s] loss 0.4312 lr 9.2e-05 skipped 1", at most width columns.
std::string progress_bar(const ProgressState& s, int width);
// "step 30/250  epoch 0.12  loss 0.4312  lr 9.2e-05  41.2 samples/s  elapsed 00:12  left 01:31  skipped 1"
std::string progress_line(const ProgressState& s);

class Progress {
 public:
  // every: steps between plain lines. The bar is redrawn ten times a second at most.
  explicit Progress(std::FILE* out = stderr, int64_t every = 50);
  Progress(std::FILE* out, int64_t every, bool bar, int width);  // as told, whatever out is
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress() { done(); }

  void update(const ProgressState& s);    // after each step
  void message(const std::string& text);  // a line of its own; the bar moves below it
  void done();                            // leaves the last state standing
  bool shows_bar() const { return shown_; }

 private:
  void draw();
  std::FILE* out_;
  int64_t every_;
  bool bar_;
  int width_;
  bool shown_ = false, stale_ = false, any_ = false;
  double drawn_at_ = 0;
  ProgressState last_;
};

}  // namespace amp
