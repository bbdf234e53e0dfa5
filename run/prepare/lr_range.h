// `lr_range_test` (Smith 2017, arXiv:1506.01186): a short run whose learning rate grows geometrically. Its losses
// suggest a rate for training. Smoothing, end and suggestions are those of fastai's LRFinder (valley, steep, minimum).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "trainer/loop/schedule.h"

namespace amp {

// Returns the schedule of a test of `steps` steps. `given` holds `lr_scheduler_kwargs`: min_lr (default 1e-7) and
// max_lr (default 10).
ScheduleConfig lr_range_schedule(int64_t steps, const std::map<std::string, std::string>& given);

class LrRange {
 public:
  struct Rates {
    double valley = 0;   // rate at two thirds of the longest descent
    double steep = 0;    // rate of the steepest descent
    double minimum = 0;  // a tenth of the rate of the lowest loss
  };
  explicit LrRange(int64_t steps) : steps_(steps) {}
  void observe(double lr, double loss);  // adds the learning rate and the loss of an applied step
  bool over() const { return over_; }    // the smoothed loss became NaN or exceeded four times the lowest one
  size_t seen() const { return rates_.size(); }
  Rates rates() const;       // all 0 if there are too few losses; ignores the first tenth and the last five of them
  std::string json() const;  // rates, losses, smoothed losses, suggestions

 private:
  int64_t steps_;
  std::vector<double> rates_, losses_, smoothed_;
  double average_ = 0, lowest_ = 0;
  bool over_ = false;
};

}  // namespace amp
