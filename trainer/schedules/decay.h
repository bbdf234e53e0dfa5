// torch's StepLR, MultiStepLR and ExponentialLR by steps, behind a warm-up; and noam (Vaswani et al. 2017, equation 3).
#pragma once

#include "trainer/schedules/row.h"

namespace amp {

inline const ScheduleRow kStep{"step",
                               {{"step_size", "", 1}, {"gamma", "0.1", 0}},
                               [](const SchedulePoint& p) {
                                 if (const auto w = p.warming()) return *w;
                                 const int64_t size =
                                     p.has("step_size") ? p.whole("step_size") : std::max<int64_t>(1, p.total / 3);
                                 const int64_t times = (p.step - p.warmup) / size;
                                 return std::pow(p.number("gamma"), static_cast<double>(times));
                               },
                               "times gamma every step_size steps (a third of the run)"};

inline const ScheduleRow kMultiStep{"multistep",
                                    {{"milestones", "", 0, 1e15, {}, true}, {"gamma", "0.1", 0}},
                                    [](const SchedulePoint& p) {
                                      if (const auto w = p.warming()) return *w;
                                      int passed = 0;
                                      for (const double m : p.numbers("milestones"))
                                        passed += p.step - p.warmup >= std::llround(m);
                                      return std::pow(p.number("gamma"), passed);
                                    },
                                    "times gamma at each of the milestones, steps parted by ':'"};

inline const ScheduleRow kExponential{"exponential",
                                      {{"gamma", "0.999", 0}},
                                      [](const SchedulePoint& p) {
                                        if (const auto w = p.warming()) return *w;
                                        return std::pow(p.number("gamma"), p.done());
                                      },
                                      "times gamma every step"};

inline const ScheduleRow kNoam{"noam",
                               {{"d_model", "512", 1}},
                               [](const SchedulePoint& p) {
                                 const double s = SchedulePoint::at_least_one(p.step);
                                 return 1 / std::sqrt(p.number("d_model")) *
                                        std::min(1 / std::sqrt(s),
                                                 s * std::pow(SchedulePoint::at_least_one(p.warmup), -1.5));
                               },
                               "lr d_model^-0.5 min(step^-0.5, step warmup^-1.5); lr is about 1"};

}  // namespace amp
