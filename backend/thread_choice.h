// Chooses the number of threads of a Program by timing its first runs with several candidate numbers. The candidates
// are timed again later, because other processes may have been active. A small net's kernels finish before a second
// thread wakes up. Results do not depend on the choice (parallel.h).
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace amp {

class ThreadChoice {
 public:
  // Returns the threads of the next run, at most `most`. 0: the caller's number of threads; the run is not timed.
  int next(int most) {
    if (most != most_) start(most);
    if (!deciding() && keep_ > 0 && --keep_ == 0) restart_trials();
    return deciding() ? trials_[at_].threads : chosen_ == most ? 0 : chosen_;
  }
  bool deciding() const { return at_ < trials_.size(); }
  int chosen() const { return deciding() ? trials_[at_].threads : chosen_; }
  // Records the duration of the run. Call only while deciding.
  void took(double seconds) {
    Trial& t = trials_[at_];
    t.seconds = std::min(t.seconds, seconds);
    if (++runs_ < kRuns) return;
    runs_ = 0;
    // If a run with all threads takes this long, waking threads costs little, and trials with fewer threads would
    // be slow.
    if (at_ == 0 && t.seconds > kLong) trials_.clear();
    do ++at_;
    while (deciding() && trials_[at_].left_out);
    if (deciding() || trials_.empty()) return;
    chosen_ = fastest().threads;
    keep_ = keep_next_, keep_next_ *= kRarer;
  }

 private:
  static constexpr int kRuns = 5;  // runs per candidate; the fastest counts
  static constexpr double kLong = 0.02;
  // The candidates are timed again after kKeep runs, then each time after kRarer times as many
  // runs.
  static constexpr int64_t kKeep = 64, kRarer = 8;
  static constexpr double kFar = 3;  // candidates this many times slower than the fastest are left out
  static constexpr double kUntried = std::numeric_limits<double>::infinity();
  struct Trial {
    int threads;
    double seconds = kUntried;
    bool left_out = false;
  };

  void start(int most) {
    most_ = most, chosen_ = most, runs_ = 0, at_ = 0, keep_ = 0, keep_next_ = kKeep;
    trials_.clear();
    if (most > 1) trials_.push_back({most});
    for (int n = 1; n < most; n *= 2) trials_.push_back({n});
  }
  void restart_trials() {
    const double most = kFar * fastest().seconds;
    for (Trial& t : trials_) {
      t.left_out = &t != &trials_[0] && t.seconds > most;
      if (!t.left_out) t.seconds = kUntried;
    }
    at_ = 0;
  }
  // Returns the candidate that was fastest when the candidates were last timed.
  const Trial& fastest() const {
    return *std::min_element(trials_.begin(), trials_.end(), [](const Trial& a, const Trial& b) {
      return std::pair(a.left_out, a.seconds) < std::pair(b.left_out, b.seconds);
    });
  }

  int most_ = 0, chosen_ = 0, runs_ = 0;
  int64_t keep_ = 0;  // runs until the candidates are timed again; 0: never
  int64_t keep_next_ = kKeep;
  size_t at_ = 0;
  std::vector<Trial> trials_;  // candidates: all threads, then 1, 2, 4 ...
};

}  // namespace amp
