// timm's WSDLRScheduler: a warm-up, a stable phase that is constant or (rsqrt) 1 / sqrt(1 + t / timescale), then a
// decay to min_lr over the last decay_epochs. The run's steps include the warm-up and cooldown_epochs at min_lr.
#pragma once

#include "trainer/schedules/timm.h"

namespace amp {

struct TimmWsd {
  static double decay(const std::string& shape, double part) {
    if (shape == "linear") return 1 - part;
    if (shape == "1-sqrt") return 1 - std::sqrt(part);
    if (shape == "cosine") return 0.5 * (1 + std::cos(std::numbers::pi * part));
    if (shape == "power") return 1 - std::pow(part, 0.5);
    constexpr double kRatio = 0.1;  // exp: final value of the exponential, before it is rescaled to end at 0
    return (std::pow(kRatio, part) - kRatio) / (1 - kRatio);
  }
  static double rate(const SchedulePoint& p, bool rsqrt) {
    const TimmPoint at(p);
    if (const auto rate = at.started()) return *rate;
    const double length = at.total() - at.warmup - at.of_epochs("cooldown_epochs"), asked = p.number("decay_epochs");
    const double fall = std::nearbyint(asked < 1 ? asked * length : at.of_epochs("decay_epochs"));  // half to even
    const double t = at.t - at.warmup, low = p.number("min_lr");
    double lr = p.lr;
    if (rsqrt) {
      const double scale = p.has("stable_timescale") ? at.of_epochs("stable_timescale") : at.warmup;
      lr = std::max(lr * std::pow(1 + t / (scale > 0 ? scale : 1), -0.5), low);
    } else {
      lr = std::max(lr, low);
    }
    const double falling = t - (length - fall);
    if (falling <= 0) return lr;
    return low + (lr - low) * decay(p.text("decay_fn"), fall > 0 ? std::min(falling / fall, 1.0) : 1.0);
  }
  static std::vector<ScheduleKey> keys(const char* decay_fn, std::vector<ScheduleKey> more) {
    std::vector<ScheduleKey> out =
        timm_keys({{"decay_epochs", "0.2", 1e-300},
                   {"cooldown_epochs", "0"},
                   {"min_lr", "0"},
                   {"decay_fn", decay_fn, 0, 0, {"linear", "1-sqrt", "cosine", "power", "exp"}}});
    out.insert(out.end(), more.begin(), more.end());
    return out;
  }
};

inline const ScheduleRow kTimmWsd{"timm_wsd", TimmWsd::keys("1-sqrt", {}),
                                  [](const SchedulePoint& p) { return TimmWsd::rate(p, false); },
                                  "timm's WSDLRScheduler", true};

// stable_timescale defaults to the length of the warm-up. Without a warm-up it is one epoch (or one update).
inline const ScheduleRow kTimmRsqrt{"timm_rsqrt", TimmWsd::keys("linear", {{"stable_timescale", "", 1e-300}}),
                                    [](const SchedulePoint& p) { return TimmWsd::rate(p, true); },
                                    "timm's WSDLRScheduler with a stable phase that falls by the root", true};

}  // namespace amp
