// The schedule of a run that is resumed for another number of steps than it was to have (docs/optimizers.md).
#pragma once

#include <string>

#include "base/log.h"
#include "trainer/loop/checkpoint.h"
#include "trainer/loop/schedule.h"

namespace amp {

enum class ResumeSchedule {
  automatic,  // as before, where the number of steps changes no learning rate; else refused
  stretch,    // as if that number had been asked for from the beginning
  restart,    // a new one over the steps that are left, warm-up included
  hold        // as before, then its last learning rate
};
ResumeSchedule resume_schedule_from_name(const std::string& name);

// asked: as a run that begins now would have it, over asked.total_steps. Exit::checkpoint: E_CKPT_STEPS (more steps are
// done already), E_CKPT_SCHEDULE (the number of steps matters, and `how` does not say what becomes of the schedule).
ScheduleConfig resumed_schedule(const ScheduleConfig& asked, const Checkpoint& checkpoint, ResumeSchedule how,
                                const Log& log = {});

// What a checkpoint's state keeps for that, as JSON.
std::string schedule_record(const ScheduleConfig& schedule, int64_t max_steps);

}  // namespace amp
