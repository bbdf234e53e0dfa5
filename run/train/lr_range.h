// --lr_range_test (Smith 2017, arXiv:1506.01186): a short run whose learning rate rises geometrically, what its losses
// say of the rate to train with. Smoothing, end and suggestions are fastai's (LRFinder, valley, steep, minimum).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "trainer/loop/schedule.h"

namespace amp {

// The schedule of a test of so many steps; `given`: min_lr 1e-7, max_lr 10 of --lr_scheduler_kwargs.
ScheduleConfig lr_range_schedule(int64_t steps, const std::map<std::string, std::string>& given);

class LrRange {
 public:
  struct Rates {
    double valley = 0;   // two thirds down the longest descent
    double steep = 0;    // where the loss falls fastest
    double minimum = 0;  // a tenth of the rate of the lowest loss
  };
  explicit LrRange(int64_t steps) : steps_(steps) {}
  void see(double lr, double loss);    // of an applied step
  bool over() const { return over_; }  // the loss is four times the lowest one, or no number
  size_t seen() const { return rates_.size(); }
  Rates rates() const;       // 0 where there are too few losses; all but the first tenth and the last five count
  std::string json() const;  // rates, losses, smoothed losses, suggestions

 private:
  int64_t steps_;
  std::vector<double> rates_, losses_, smoothed_;
  double average_ = 0, lowest_ = 0;
  bool over_ = false;
};

inline constexpr const char* kLrRangeFile = "lr_range.json";

}  // namespace amp
