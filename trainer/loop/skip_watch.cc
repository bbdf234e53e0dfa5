#include "trainer/loop/skip_watch.h"

#include <algorithm>

#include "base/error.h"

namespace amp {

SkipWatch::SkipWatch(const LossScaleConfig& config, bool resumed)
    : calibrating_(config.mode == LossScaleConfig::Mode::dynamic && !resumed),
      tolerated_(config.mode == LossScaleConfig::Mode::dynamic
                     ? std::max<int64_t>(5, 2 * kWindow / (static_cast<int64_t>(config.growth_interval) + 1))
                     : 5) {}

SkipWatch::Message SkipWatch::observe(const StepScale& step) {
  if (calibrating_) {
    if (step.applied) {
      calibrating_ = false;
      if (calibration_skips_ > 0) {
        return {cat("loss scale: ", step.used, " found after ", calibration_skips_, " skipped steps, as is usual"),
                false};
      }
    } else if (!step.at_floor) {
      ++calibration_skips_;
      return {};
    }
    // The loss scale cannot fall below its smallest value. Once it has reached that value, every skip counts.
    calibrating_ = calibrating_ && !step.at_floor;
  }
  recent_.push_back(!step.applied);
  skips_ += !step.applied;
  if (static_cast<int64_t>(recent_.size()) > kWindow) {
    skips_ -= recent_.front();
    recent_.pop_front();
  }
  ++since_alarm_;
  if (step.applied || skips_ <= tolerated_ || since_alarm_ <= pause_) return {};
  pause_ = std::min(2 * pause_, 64 * kWindow);
  since_alarm_ = 0;
  return {cat("W_SKIPS: ", skips_, " of the last ", recent_.size(),
              " steps had non-finite gradients and were skipped (loss scale ", step.used, ")"),
          true};
}

}  // namespace amp
