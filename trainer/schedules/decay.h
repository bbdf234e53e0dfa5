// torch's StepLR, MultiStepLR and ExponentialLR per step, after a warm-up. As in torch each rate is the previous one
// times a factor, so rounding is equal. Also noam (Vaswani et al. 2017, equation 3).
#pragma once

#include "trainer/schedules/row.h"

namespace amp {

struct Decay {
  static double begin(const SchedulePoint& p) { return p.warming().value_or(1); }
  static double step(const SchedulePoint& p, double before) {
    const int64_t size = p.has("step_size") ? p.whole("step_size") : std::max<int64_t>(1, p.total / 3);
    return (p.step - p.warmup) % size == 0 ? before * p.number("gamma") : before;
  }
  static double multistep(const SchedulePoint& p, double before) {
    int times = 0;
    for (const double m : p.numbers("milestones")) times += std::llround(m) == p.step - p.warmup;
    return times == 0 ? before : before * std::pow(p.number("gamma"), times);
  }
  static double exponential(const SchedulePoint& p, double before) { return before * p.number("gamma"); }
};

inline const ScheduleRow kStep{"step",       {{"step_size", "", 1}, {"gamma", "0.1", 0}},
                               Decay::begin, "times gamma every step_size steps (a third of the run)",
                               false,        nullptr,
                               Decay::step};

inline const ScheduleRow kMultiStep{"multistep",     {{"milestones", "", 0, 1e15, {}, true}, {"gamma", "0.1", 0}},
                                    Decay::begin,    "times gamma at each of the milestones, steps parted by ':'",
                                    false,           nullptr,
                                    Decay::multistep};

inline const ScheduleRow kExponential{
    "exponential", {{"gamma", "0.999", 0}}, Decay::begin, "times gamma every step", false, nullptr, Decay::exponential};

inline const ScheduleRow kNoam{"noam",
                               {{"d_model", "512", 1}},
                               [](const SchedulePoint& p) {
                                 const double s = SchedulePoint::at_least_one(p.step);
                                 return std::pow(p.number("d_model"), -0.5) *
                                        std::min(std::pow(s, -0.5),
                                                 s * std::pow(SchedulePoint::at_least_one(p.warmup), -1.5));
                               },
                               "lr d_model^-0.5 min(step^-0.5, step warmup^-1.5); lr is about 1"};

}  // namespace amp
