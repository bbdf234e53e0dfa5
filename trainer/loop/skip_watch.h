// What a person is told of skipped steps. A dynamic scale that starts high skips a few steps until it fits: one quiet
// line when that is over. Later skips are an alarm only when they are many.
#pragma once

#include <cstdint>
#include <deque>
#include <string>

#include "precision/loss_scaler.h"

namespace amp {

class SkipWatch {
 public:
  // Steps that a rate is taken over. Between alarms lie as many, then twice as many each time.
  static constexpr int64_t kWindow = 100;

  // resumed: the scale was found before.
  SkipWatch(const LossScaleConfig& config, bool resumed);

  struct Message {
    std::string text;    // empty: nothing to say
    bool alarm = false;  // else a remark that --quiet may leave out
  };
  Message see(const StepScale& step);  // after every attempted step

  // More skips than this among kWindow steps are an alarm: 5, or twice what the scale's own probing upwards costs
  // (one skip in growth_interval + 1 steps).
  int64_t tolerated() const { return tolerated_; }

 private:
  bool calibrating_;
  int64_t calibration_skips_ = 0, tolerated_, skips_ = 0, pause_ = kWindow, since_alarm_ = 64 * kWindow;
  std::deque<bool> recent_;
};

}  // namespace amp
