// How many threads a Program gains by: timed in its first runs. A small net's kernels are over before a second thread
// has woken. Results do not depend on it (parallel.h).
#pragma once

#include <algorithm>
#include <limits>
#include <vector>

namespace amp {

class ThreadChoice {
 public:
  // Threads for the next run, of `most`; 0: those that the caller has, nothing is to be timed.
  int next(int most) {
    if (most != most_) start(most);
    return trial_ < seconds_.size() ? candidate(trial_) : chosen_ == most ? 0 : chosen_;
  }
  bool deciding() const { return trial_ < seconds_.size(); }
  int chosen() const { return deciding() ? candidate(trial_) : chosen_; }
  // What the run took. Only while deciding.
  void took(double seconds) {
    seconds_[trial_] = std::min(seconds_[trial_], seconds);
    if (++runs_ < kRuns) return;
    runs_ = 0;
    // Where all threads need so long, waking them is no matter, and fewer would make the trial slow.
    if (trial_++ == 0 && seconds_[0] > kLong) trial_ = seconds_.size();
    if (deciding()) return;
    chosen_ = candidate(static_cast<size_t>(std::min_element(seconds_.begin(), seconds_.end()) - seconds_.begin()));
  }

 private:
  static constexpr int kRuns = 5;  // of each, the fastest counts
  static constexpr double kLong = 0.02;

  void start(int most) {
    most_ = most, chosen_ = most, runs_ = 0, trial_ = 0;
    size_t candidates = 0;
    while (most > 1 && (candidates == 0 || (1 << (candidates - 1)) < most)) ++candidates;
    seconds_.assign(candidates, std::numeric_limits<double>::infinity());
  }
  int candidate(size_t i) const { return i == 0 ? most_ : 1 << (i - 1); }

  int most_ = 0, chosen_ = 0, runs_ = 0;
  size_t trial_ = 0;
  std::vector<double> seconds_;  // by candidate: all threads, then 1, 2, 4 ...
};

}  // namespace amp
