// Compares the schedule stored in the checkpoint with the configured one. A schedule is unchanged if the learning rates
// of all common steps are equal, whatever its kind is.

#include "trainer/loop/resumed_schedule.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text.h"
#include "trainer/loop/checked_state.h"

namespace amp {

namespace {

struct Begun {
  ScheduleConfig schedule;
  int64_t max_steps = 0, applied = 0;
};

Begun begun(const ScheduleConfig& asked, const Checkpoint& c) {
  const CheckedState state = CheckedState::of(c), s = state.member("schedule");
  Begun b{asked};
  b.applied = state.whole("applied_steps", 0, c.step);
  b.max_steps = s.whole("max_steps", c.step, kMostCount);
  b.schedule.begin = s.whole("begin", 0, b.applied);
  b.schedule.hold = s.truth("hold");
  // A held schedule may have more steps than the run; all other schedules end with the run.
  b.schedule.total_steps =
      s.whole("steps", b.schedule.hold ? 0 : b.max_steps - c.step, b.schedule.hold ? kMostCount : b.max_steps);
  return b;
}

// Returns whether the learning rates are equal in every step that both schedules have. Only the first kCompared steps
// are compared, because the numbers of steps in a checkpoint may be forged.
bool same_rates(const ScheduleConfig& a, const ScheduleConfig& b) {
  constexpr int64_t kCompared = 10'000'000;
  const Schedule x(a), y(b);
  for (int64_t k = 0; k < std::min({a.total_steps, b.total_steps, kCompared}); ++k) {
    if (x.lr(a.begin + k) != y.lr(a.begin + k)) return false;
  }
  return true;
}

ScheduleConfig unchanged(const Begun& b, const ScheduleConfig& asked) {
  ScheduleConfig longer = b.schedule;
  if (longer.hold) return longer;
  longer.total_steps += asked.total_steps - b.max_steps;
  if (same_rates(b.schedule, longer)) return longer;
  fail(Exit::checkpoint, "E_CKPT_SCHEDULE",
       cat("the run was to have ", b.max_steps, " steps, now ", asked.total_steps,
           ", and the learning rates of `lr_scheduler` ", asked.kind, " depend on their number"),
       cat("choose the rates: `resume_schedule` stretch (as if ", asked.total_steps,
           " steps had been requested from the beginning), `resume_schedule` restart (a new schedule over the "
           "remaining steps) or `resume_schedule` hold (as before, then the last rate)"));
}

ScheduleConfig changed(const Begun& b, const ScheduleConfig& asked, int64_t done, ResumeSchedule how) {
  ScheduleConfig next = asked;
  switch (how) {
    case ResumeSchedule::automatic:
      return unchanged(b, asked);
    case ResumeSchedule::stretch:
      break;
    case ResumeSchedule::restart:
      next.begin = b.applied;
      next.total_steps -= done;
      break;
    case ResumeSchedule::hold:
      next = b.schedule;
      next.hold = true;
      break;
  }
  return next;
}

}  // namespace

ResumeSchedule resume_schedule_from_name(const std::string& name) {
  if (name == "stretch") return ResumeSchedule::stretch;
  if (name == "restart") return ResumeSchedule::restart;
  if (name == "hold") return ResumeSchedule::hold;
  if (name == "auto") return ResumeSchedule::automatic;
  fail(Exit::usage, "E_FLAG_VALUE", cat("`resume_schedule`: unknown value '", printable(name), "'"),
       "one of: auto, stretch, restart, hold");
}

ScheduleConfig resumed_schedule(const ScheduleConfig& asked, const Checkpoint& c, ResumeSchedule how, const Log& log) {
  const Begun b = begun(asked, c);
  const int64_t now = asked.total_steps;
  if (now < c.step) {
    fail(Exit::checkpoint, "E_CKPT_STEPS",
         cat("the checkpoint has ", c.step, " steps already, ", now, " are requested"),
         "request more by `max_steps` or `epochs`, name an earlier checkpoint with `resume`, or write this one's model "
         "with `export`");
  }
  if (now == b.max_steps || now == c.step) return b.schedule;  // no step remains if now == c.step
  const ScheduleConfig next = changed(b, asked, c.step, how);
  log.note(cat("the run was to have ", b.max_steps, " steps, now ", now));
  return next;
}

std::string schedule_record(const ScheduleConfig& s, int64_t max_steps) {
  return nlohmann::json{{"max_steps", max_steps}, {"begin", s.begin}, {"steps", s.total_steps}, {"hold", s.hold}}
      .dump();
}

}  // namespace amp
