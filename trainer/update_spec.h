// What a device that updates by itself is told of a run (backend/update.h).
#pragma once

#include "backend/update.h"
#include "trainer/optimizer.h"
#include "trainer/schedule.h"
#include "trainer/session.h"

namespace amp {

// max_steps: the learning rates of so many applied steps are laid out.
UpdateSpec describe_update(const Session& session, const OptimizerConfig& optimizer, const ScheduleConfig& schedule,
                           const ScaleRule& scale, const Losses& losses, int64_t max_steps);

}  // namespace amp
