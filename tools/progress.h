// Shows the progress of a run. On a terminal, one line is rewritten in place; it also shows the activities before,
// between and after the steps (base/activity.h). Elsewhere, a plain line is printed every few steps.
#pragma once

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "base/activity.h"
#include "run/host.h"

namespace amp {

std::string format_duration(double seconds);  // returns "01:31" or "2:03:04"; "--:--" if unknown
double seconds_left(const ProgressState& s);  // NaN if unknown

// Course: the history of a value, stored as a bounded number of means, each of the same number of steps.
class Course {
 public:
  void add(double value);  // ignores values that are not finite
  // Returns a sparkline of at most `columns` characters, such as "█▆▄▃▂▁▁". The lowest mean is
  // drawn as the lowest of eight blocks.
  std::string sparkline(int columns) const;

 private:
  static constexpr size_t kMost = 256;
  int64_t each_ = 1, in_last_ = 0;  // number of values per mean; number of values in the last, incomplete mean
  std::vector<double> sums_;
};

// Returns the bar:
//   " 12%|####      | 30/250 [00:12<01:31, 41.2 samples/s] loss 0.4312 █▆▄▃▂ lr 9.2e-05 472 MiB skipped 1"
// The least important details are dropped to fit `width`; at 40 columns: "30/250 <01:31 41.2/s loss 0.431
// skip 1". loss: for the sparkline; null if the terminal cannot show blocks.
std::string progress_bar(const ProgressState& s, int width, const Course* loss = nullptr);
// Returns a plain line:
//   "step 30/250  epoch 0.12  loss 0.4312  lr 9.2e-05  41.2 samples/s  elapsed 00:12  left 01:31  472 MiB  skipped 1"
std::string progress_line(const ProgressState& s);
// Returns the plain line as JSON, {"id":"PROGRESS","level":"info","message":"step 30/250 ...","step":30,...}.
std::string progress_json(const ProgressState& s);
// Returns the line of an activity: "reading train.csv   34%  102 of 300 MB  [00:02<00:04]". To fit `width`, details are
// dropped first, and then the text is cut.
std::string activity_line(const ActivityState& s, int width);
int display_width(const std::string& text);  // columns of UTF-8 text, if each character has width 1

// Returns the control sequence that clears a line of `columns` columns on a terminal of `width` columns. After a
// resize the line may have wrapped. If the terminal wraps lines again (reflows), the cursor first moves up.
std::string clear_line(int columns, int width, bool reflows);

class Progress {
 public:
  // every: number of steps from one plain line to the next. The bar is redrawn at most ten times per second.
  explicit Progress(std::FILE* out = stderr, int64_t every = 50);
  Progress(std::FILE* out, int64_t every, bool bar, int width, bool blocks = false);  // explicit settings, for tests
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress() { done(); }

  void update(const ProgressState& s);                   // called after each step
  void activity(const ActivityState* state);             // on a terminal: shown instead of the bar; null: erases it
  void message(const std::string& text);                 // prints a line above the bar or the activity
  void done();                                           // ends the bar, whose last state stays on the screen
  bool shows_line() const { return shown_ || active_; }  // whether the cursor is in an unfinished line
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
