// SkipWatch: decides when to report skipped steps. A dynamic loss scale that starts high skips a few steps until it
// fits; that is reported once, as information. Later skips cause a warning only if they are frequent.
#pragma once

#include <cstdint>
#include <deque>
#include <string>

#include "precision/loss_scaler.h"

namespace amp {

class SkipWatch {
 public:
  // Number of steps over which skips are counted. It is also the pause after the first warning; every further warning
  // doubles the pause.
  static constexpr int64_t kWindow = 100;

  // resumed: the loss scale has been found before, so every skip counts.
  SkipWatch(const LossScaleConfig& config, bool resumed);

  struct Message {
    std::string text;    // empty: nothing to report
    bool alarm = false;  // true: a warning; false: information that --quiet omits
  };
  Message observe(const StepScale& step);  // call after every attempted step

  // Returns the number of skips within kWindow steps above which a warning is due. It is at least 5, or twice the
  // number of skips that growing the scale causes (one in growth_interval + 1 steps).
  int64_t tolerated() const { return tolerated_; }

 private:
  bool calibrating_;
  int64_t calibration_skips_ = 0, tolerated_, skips_ = 0, pause_ = kWindow, since_alarm_ = 64 * kWindow;
  std::deque<bool> recent_;
};

}  // namespace amp
