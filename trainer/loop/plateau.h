// Plateau: the schedule reduce_lr_on_plateau, as torch's ReduceLROnPlateau. After more than `patience` evaluations in a
// row without a better metric, the learning rate is multiplied by `factor`. These rates depend on evaluations and
// cannot be tabulated. Therefore the device multiplies the schedule's rates by scale() (DeviceUpdate::set_lr_scale).
#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "trainer/loop/schedule.h"

namespace amp {

class Plateau {
 public:
  static bool asked(const ScheduleConfig& schedule) { return schedule.kind == "reduce_lr_on_plateau"; }

  Plateau(const ScheduleConfig& schedule, bool lower_is_better);

  bool observe(double metric);  // records an evaluation; returns whether it reduces the rate
  double scale() const { return state_.scale; }
  double lr() const { return lr_ * state_.scale; }  // the current rate

  struct State {
    double best = 0;
    bool seen = false;  // whether `best` has been set by an evaluation
    int64_t bad = 0, cooldown = 0;
    double scale = 1;
  };
  const State& state() const { return state_; }
  void restore(const State& s) { state_ = s; }

 private:
  bool better(double metric) const;

  double lr_, factor_, threshold_, min_lr_, eps_;
  int64_t patience_, cooldown_;
  bool relative_, lower_;
  State state_;
};

}  // namespace amp
