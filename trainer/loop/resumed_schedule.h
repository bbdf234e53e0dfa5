// Selects the schedule of a run that is resumed with another total number of steps (docs/optimizers.md).
#pragma once

#include <string>

#include "base/log.h"
#include "trainer/loop/checkpoint.h"
#include "trainer/loop/schedule.h"

namespace amp {

enum class ResumeSchedule {
  automatic,  // the old schedule if the number of steps does not change its learning rates; else an error
  stretch,    // as if the new number had been configured from the beginning
  restart,    // a new schedule over the remaining steps, with warm-up
  hold        // the old schedule, then its last learning rate
};
ResumeSchedule resume_schedule_from_name(const std::string& name);

// Returns the schedule of the resumed run. asked: the schedule that a new run would have, over asked.total_steps.
// Throws E_CKPT_STEPS (Exit::checkpoint) if more steps are already done. Throws E_CKPT_SCHEDULE (Exit::checkpoint) if
// `how` is automatic and the number of steps changes learning rates, E_CKPT_MANIFEST (Exit::checkpoint) if the
// checkpoint has no schedule or one that no run has.
ScheduleConfig resumed_schedule(const ScheduleConfig& asked, const Checkpoint& checkpoint, ResumeSchedule how,
                                const Log& log = {});

// Returns the JSON that a checkpoint stores for resumed_schedule().
std::string schedule_record(const ScheduleConfig& schedule, int64_t max_steps);

}  // namespace amp
