// Shows the progress of a run: one line rewritten in place on a terminal, otherwise a plain line every few steps. On a
// terminal also shows the activities before, between and after the steps (base/activity.h).
#pragma once

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "base/activity.h"
#include "run/host.h"

namespace amp {

std::string format_duration(double seconds);  // "01:31", "2:03:04"; "--:--" if unknown
double seconds_left(const ProgressState& s);  // NaN: unknown

// Course: the history of a value as a bounded number of means over equally many steps.
class Course {
 public:
  void add(double value);  // ignores values that are not finite
  // Returns at most `columns` characters, such as "█▆▄▃▂▁▁".
  // The lowest mean is drawn as the lowest of eight blocks.
  std::string sparkline(int columns) const;

 private:
  static constexpr size_t kMost = 256;
  int64_t each_ = 1, in_last_ = 0;  // number of values per mean; number of values in the last mean so far
  std::vector<double> sums_;
};

// Formats the bar:
//   " 12%|####      | 30/250 [00:12<01:31, 41.2 samples/s] loss 0.4312 █▆▄▃▂ lr 9.2e-05 472 MiB skipped 1"
// Drops the least important details to fit `width`; at 40 columns: "30/250 <01:31 41.2/s loss 0.431 skip 1".
// loss: null if the terminal cannot show blocks.
std::string progress_bar(const ProgressState& s, int width, const Course* loss = nullptr);
// Formats a plain line:
//   "step 30/250  epoch 0.12  loss 0.4312  lr 9.2e-05  41.2 samples/s  elapsed 00:12  left 01:31  472 MiB  skipped 1"
std::string progress_line(const ProgressState& s);
// Formats the same as a line of JSON, {"id":"PROGRESS","level":"info","message":"step 30/250 ...","step":30,...}.
std::string progress_json(const ProgressState& s);
// Formats an activity: "reading train.csv   34%  102 of 300 MB  [00:02<00:04]". Drops details to fit `width`, then cuts
// the text.
std::string activity_line(const ActivityState& s, int width);
int display_width(const std::string& text);  // columns of UTF-8 text with characters of width 1

// Returns the control sequence that clears a line of `columns` on a terminal of `width`. After a resize the line may
// have wrapped; if the terminal re-wraps lines (reflows), the cursor first moves up.
std::string clear_line(int columns, int width, bool reflows);

class Progress {
 public:
  // every: steps between plain lines. The bar is redrawn at most ten times per second.
  explicit Progress(std::FILE* out = stderr, int64_t every = 50);
  Progress(std::FILE* out, int64_t every, bool bar, int width, bool blocks = false);  // explicit settings, for tests
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress() { done(); }

  void update(const ProgressState& s);                   // after each step
  void activity(const ActivityState* state);             // on a terminal: shows it instead of the bar; null: erases it
  void message(const std::string& text);                 // prints a line above the bar or the activity
  void done();                                           // ends the bar; its last state stays on the screen
  bool shows_line() const { return shown_ || active_; }  // the cursor is in a line that is not finished
  bool draws() const { return bar_; }

 private:
  void draw();
  void put(const std::string& line);
  void print_line() const;
  int columns() const;
  std::FILE* out_;
  int64_t every_;
  bool bar_;
  int width_;
  bool blocks_;
  int drawn_ = 0;  // width of the line on the screen, in columns
  std::optional<ActivityState> active_;
  bool shown_ = false, stale_ = false, any_ = false;
  double drawn_at_ = 0;
  ProgressState last_;
  Course loss_;
};

}  // namespace amp
