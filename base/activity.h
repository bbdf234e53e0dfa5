// Activity: work before, between or after training steps that a person may wait for, such as reading a file. It counts
// the finished units of this work. The program may show the count on a terminal. Without a display, a report costs one
// comparison.
//
// The display belongs to the process, as its terminal does, so that readers and loops need no argument for it. If
// several activities run at the same time, only the first one is shown.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

namespace amp {

struct ActivityState {
  std::string what;             // "reading train.csv"; not escaped
  std::string unit;             // "rows"; "B" for bytes
  int64_t done = 0, total = 0;  // total 0: unknown
  double seconds = 0;           // since the activity began
};

class Activity {
 public:
  static constexpr double kFirstSeconds = 0.3;  // until an activity with a count is shown
  static constexpr double kSeconds = 0.2;       // between two states that are shown

  // An activity with a count. The caller reports it at most every few microseconds, because each report reads a clock.
  Activity(std::string what, std::string unit, int64_t total);
  // An activity without a count, which is shown at once.
  explicit Activity(std::string what);
  Activity(const Activity&) = delete;
  Activity& operator=(const Activity&) = delete;
  ~Activity();  // ends the display

  void add(int64_t more);    // from any thread
  void reach(int64_t done);  // from one thread at a time

 private:
  using Clock = std::chrono::steady_clock;
  void show_if_due();
  void show();
  bool shown_ = false;  // this activity is the one that is displayed
  ActivityState state_;
  std::atomic<int64_t> done_{0};
  Clock::time_point begin_;
  std::atomic<Clock::rep> next_{0};  // when the next state is due, since the clock's epoch
};

// Shows the states of activities: called with null when one ends. It is called by one thread at a time.
using ActivityDisplay = std::function<void(const ActivityState*)>;

// Sets the display; an empty function: none. Must not be called while an activity exists.
void set_activity_display(ActivityDisplay show);

// Returns the last component of a path, which an activity names.
std::string name_in_folder(const std::string& path);

// Returns whether the display shows an activity, which then is an unfinished line. Async-signal-safe.
bool activity_is_shown();

}  // namespace amp
