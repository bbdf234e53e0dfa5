// Activity: work before, between or after training steps that a person may wait for, such as reading a file. An
// Activity counts the finished units of its work, and the program may show the count on a terminal. If no display is
// set, a report of progress costs one comparison.
//
// The display belongs to the process, as the terminal does, so readers and loops need no argument for it. If several
// activities run at the same time, only the first one is shown.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

namespace amp {

struct ActivityState {
  std::string what;             // current activity, such as "reading train.csv"; not escaped
  std::string unit;             // unit of `done` and `total`: "rows"; "B" for bytes
  int64_t done = 0, total = 0;  // total is 0 if it is unknown
  double seconds = 0;           // since the activity began
};

class Activity {
 public:
  static constexpr double kFirstSeconds = 0.3;  // delay before an activity with a count is shown for the first time
  static constexpr double kSeconds = 0.2;       // least time between two redraws

  // An activity with a count. The caller reports it at most every few microseconds, because each report reads a clock.
  Activity(std::string what, std::string unit, int64_t total);
  // An activity without a count, which is shown at once.
  explicit Activity(std::string what);
  Activity(const Activity&) = delete;
  Activity& operator=(const Activity&) = delete;
  ~Activity();  // ends the display

  void add(int64_t more);    // may be called by any thread
  void reach(int64_t done);  // may be called by one thread at a time

 private:
  using Clock = std::chrono::steady_clock;
  void show_if_due();
  void show();
  bool shown_ = false;  // this activity is the one that is displayed
  ActivityState state_;
  std::atomic<int64_t> done_{0};
  Clock::time_point begin_;
  std::atomic<Clock::rep> next_{0};  // time of the next redraw, in ticks since the clock's epoch
};

// A function that shows an activity's state, or null when the activity ends. One thread at a time calls it.
using ActivityDisplay = std::function<void(const ActivityState*)>;

// Sets the display; an empty function turns the display off. Must not be called while an activity exists.
void set_activity_display(ActivityDisplay show);

// Returns the last component of a path. Activities use it as the name of the file that they read.
std::string name_in_folder(const std::string& path);

// Returns whether the display shows an activity, as an unfinished line of the terminal. Async-signal-safe.
bool activity_is_shown();

}  // namespace amp
