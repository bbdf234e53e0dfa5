// torch's ReduceLROnPlateau after a warm-up. Between evaluations the rate is constant; trainer/loop/plateau.h reduces
// it.
#pragma once

#include "trainer/schedules/row.h"

namespace amp {

inline const ScheduleRow kReduceLrOnPlateau{"reduce_lr_on_plateau",
                                            {{"factor", "0.1", 0, 1},
                                             {"patience", "10", 0},
                                             {"threshold", "1e-4", 0},
                                             {"threshold_mode", "rel", 0, 0, {"rel", "abs"}},
                                             {"cooldown", "0", 0},
                                             {"min_lr", "0", 0},
                                             {"eps", "1e-8", 0}},
                                            [](const SchedulePoint& p) { return p.warming().value_or(1); },
                                            "times factor after patience evaluations without a better metric"};

}  // namespace amp
