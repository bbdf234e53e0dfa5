// Warm-up, stable, decay (Hu et al. 2024, arXiv:2404.06395), as transformers.optimization.get_wsd_schedule. The shapes
// of warm-up and decay are linear, cosine or 1-sqrt.
#pragma once

#include "trainer/schedules/row.h"

namespace amp {

inline double wsd_rise(const std::string& shape, double progress) {
  if (shape == "linear") return progress;
  return shape == "cosine" ? 0.5 * (1 - std::cos(std::numbers::pi * progress)) : 1 - std::sqrt(1 - progress);
}
inline double wsd_fall(const std::string& shape, double progress, double cycles) {
  if (shape == "linear") return 1 - progress;
  return shape == "cosine" ? 0.5 * (1 + std::cos(std::numbers::pi * cycles * 2 * progress)) : 1 - std::sqrt(progress);
}

inline const ScheduleRow kWarmupStableDecay{
    "warmup_stable_decay",
    {{"num_decay_steps", "", 0},
     {"warmup_type", "linear", 0, 0, {"linear", "cosine", "1-sqrt"}},
     {"decay_type", "cosine", 0, 0, {"linear", "cosine", "1-sqrt"}},
     {"min_lr_ratio", "0", 0, 1},
     {"num_cycles", "0.5", 0}},
    [](const SchedulePoint& p) {
      const double least = p.number("min_lr_ratio");
      if (const auto w = p.warming()) return std::max(0.0, wsd_rise(p.text("warmup_type"), *w) * (1 - least) + least);
      // num_decay_steps defaults to a tenth of the run, as in the paper.
      const int64_t decay = p.has("num_decay_steps") ? p.whole("num_decay_steps") : p.total / 10;
      const int64_t begin = std::max(p.total - decay, p.warmup);
      if (p.step < begin) return 1.0;
      if (p.step >= begin + decay) return least;
      const double progress = static_cast<double>(p.step - begin) / SchedulePoint::at_least_one(decay);
      return std::max(0.0, wsd_fall(p.text("decay_type"), progress, p.number("num_cycles")) * (1 - least) + least);
    },
    "warm-up, lr, then down to min_lr_ratio of lr over the last num_decay_steps (a tenth of the run)"};

}  // namespace amp
