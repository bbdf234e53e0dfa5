#include "trainer/loop/plateau.h"

#include <algorithm>
#include <cmath>

namespace amp {

Plateau::Plateau(const ScheduleConfig& schedule, bool lower_is_better) : lower_(lower_is_better) {
  const ScheduleConfig c = Schedule(schedule).config();  // adds defaults for missing settings
  const SchedulePoint s{0, 0, 0, c.lr, &c.settings};
  lr_ = c.lr;
  factor_ = s.number("factor");
  patience_ = s.whole("patience");
  threshold_ = s.number("threshold");
  relative_ = s.text("threshold_mode") == "rel";
  cooldown_ = s.whole("cooldown");
  min_lr_ = s.number("min_lr");
  eps_ = s.number("eps");
}

bool Plateau::better(double metric) const {
  if (!state_.seen) return std::isfinite(metric);
  const double sign = lower_ ? -1 : 1, best = state_.best;
  const double bound = relative_ ? best * (1 + sign * threshold_) : best + sign * threshold_;
  return lower_ ? metric < bound : metric > bound;
}

bool Plateau::observe(double metric) {
  if (better(metric)) {
    state_.best = metric;
    state_.seen = true;
    state_.bad = 0;
  } else {
    ++state_.bad;
  }
  if (state_.cooldown > 0) {
    --state_.cooldown;
    state_.bad = 0;
  }
  if (state_.bad <= patience_) return false;
  state_.cooldown = cooldown_;
  state_.bad = 0;
  const double now = lr(), next = std::max(now * factor_, min_lr_);
  if (!(now - next > eps_)) return false;
  state_.scale = next / lr_;
  return true;
}

}  // namespace amp
