// The cosine schedules of Hugging Face (transformers.optimization). Hugging Face's rates rise again after the end of
// the run; the rates here keep their last value.
#pragma once

#include "trainer/schedules/row.h"

namespace amp {

inline double cosine_wave(double cycles, double progress) {
  return 0.5 * (1 + std::cos(std::numbers::pi * cycles * 2 * std::min(progress, 1.0)));
}

inline const ScheduleRow kCosine{"cosine",
                                 {{"num_cycles", "0.5", 0}},
                                 [](const SchedulePoint& p) {
                                   if (const auto w = p.warming()) return *w;
                                   return std::max(0.0, cosine_wave(p.number("num_cycles"), p.progress()));
                                 },
                                 "warm-up, then num_cycles waves from lr to 0"};

inline const ScheduleRow kCosineWithRestarts{
    "cosine_with_restarts",
    {{"num_cycles", "1", 0}},
    [](const SchedulePoint& p) {
      if (const auto w = p.warming()) return *w;
      if (p.progress() >= 1) return 0.0;
      return std::max(0.0,
                      0.5 * (1 + std::cos(std::numbers::pi * std::fmod(p.number("num_cycles") * p.progress(), 1.0))));
    },
    "warm-up, then num_cycles times from lr to 0"};

inline const ScheduleRow kCosineWithMinLr{
    "cosine_with_min_lr",
    {{"num_cycles", "0.5", 0}, {"min_lr", "", 0}, {"min_lr_rate", "", 0, 1}},
    [](const SchedulePoint& p) {
      if (const auto w = p.warming()) return *w;
      const double least = p.has("min_lr_rate") ? p.number("min_lr_rate")
                           : p.has("min_lr")    ? p.number("min_lr") / p.lr
                                                : 0;
      return std::max(0.0, cosine_wave(p.number("num_cycles"), p.progress()) * (1 - least) + least);
    },
    "as cosine, down to min_lr (or min_lr_rate of lr)"};

}  // namespace amp
