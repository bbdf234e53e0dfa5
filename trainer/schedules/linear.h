// Hugging Face's constant, constant_with_warmup, linear, polynomial and inverse_sqrt (transformers.optimization).
#pragma once

#include "trainer/schedules/row.h"

namespace amp {

inline const ScheduleRow kConstant{"constant", {}, [](const SchedulePoint&) { return 1.0; }, "lr"};

inline const ScheduleRow kConstantWithWarmup{
    "constant_with_warmup", {}, [](const SchedulePoint& p) { return p.warming().value_or(1); }, "warm-up, then lr"};

inline const ScheduleRow kLinear{
    "linear",
    {},
    [](const SchedulePoint& p) {
      if (const auto w = p.warming()) return *w;
      return std::max(0.0, static_cast<double>(p.total - p.step) / SchedulePoint::at_least_one(p.total - p.warmup));
    },
    "warm-up, then down to 0"};

inline const ScheduleRow kPolynomial{"polynomial",
                                     {{"power", "1", 0}, {"lr_end", "1e-7", 0}},
                                     [](const SchedulePoint& p) {
                                       if (const auto w = p.warming()) return *w;
                                       const double end = p.number("lr_end");
                                       if (p.progress() >= 1) return end / p.lr;
                                       return ((p.lr - end) * std::pow(1 - p.progress(), p.number("power")) + end) /
                                              p.lr;
                                     },
                                     "warm-up, then (lr - lr_end) (1 - progress)^power + lr_end"};

inline const ScheduleRow kInverseSqrt{
    "inverse_sqrt",
    {{"timescale", "", 1}},
    [](const SchedulePoint& p) {
      if (const auto w = p.warming()) return *w;
      const double scale = p.has("timescale") ? p.number("timescale")
                           : p.warmup > 0     ? static_cast<double>(p.warmup)
                                              : 10000;
      return 1 / std::sqrt((p.done() + scale) / scale);
    },
    "warm-up, then 1 / sqrt(1 + steps / timescale); timescale: the warm-up, else 10000"};

}  // namespace amp
