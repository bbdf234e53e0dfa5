// Learning-rate schedules: functions of the number of steps applied so far (skipped steps do not count). Each schedule
// is a ScheduleRow in trainer/schedules/, named as in Hugging Face's get_scheduler, torch or timm.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "trainer/schedules/row.h"

namespace amp {

const std::vector<const ScheduleRow*>& schedule_rows();
// Returns the name of the row for a name such as "linear" or "one-cycle". Throws a usage error for an unknown name.
std::string schedule_from_name(const std::string& name);

// Returns the number of warm-up steps. warmup_steps: a number of steps or, below 1, a fraction of the total, rounded
// up.
int64_t resolve_warmup(double warmup_steps, int64_t total_steps);

// Learning rate during weight averaging, as torch's SWALR: from applied step `start` the rate changes from the
// schedule's to `lr` within anneal_steps and then stays constant.
struct AveragedRate {
  int64_t start = 0;
  double lr = 0;
  int64_t anneal_steps = 10;
  bool cosine = true;  // else linear

  // Returns the rate k steps after start. before: the rate of the previous step, or the schedule's for k = 0.
  double next(int64_t k, double before) const;
};

struct ScheduleConfig {
  std::string kind = "linear";  // a row's name
  double lr = 5e-5;
  double warmup_steps = 0;  // a number or a fraction, see resolve_warmup()
  int64_t total_steps = 0;  // length of the schedule in applied steps
  // key: ScheduleKey::name; missing keys have the default of the ScheduleRow
  std::map<std::string, std::string> settings;
  int64_t begin = 0;        // number of applied steps before the schedule's first one
  bool hold = false;        // keep the last step's rate after the schedule's end
  int64_t epoch_steps = 1;  // steps per epoch, for schedules that change per epoch
  std::optional<AveragedRate> averaged = {};
};

class Schedule {
 public:
  // Throws a usage error that names the flag or setting of a value out of range.
  explicit Schedule(const ScheduleConfig& config);
  // Returns the rate of the step after `applied` applied steps; past the end the last value, if the schedule has an
  // end. Caches the last rate for recursive schedules, so it is not thread-safe.
  double lr(int64_t applied) const;
  std::optional<double> momentum(int64_t applied) const;  // only for schedules that cycle the momentum
  std::vector<double> table(int64_t steps) const;         // lr(0), lr(1), ...: the device indexes it by applied steps
  const ScheduleConfig& config() const { return c_; }

 private:
  SchedulePoint point(int64_t applied) const;
  struct Known {  // cached rate of a step; recursive schedules continue from it
    int64_t step = -1;
    double rate = 0;
  };
  double scheduled(int64_t applied) const;
  double chained(SchedulePoint at) const;  // ScheduleRow::next

  ScheduleConfig c_;
  int64_t warmup_ = 0;
  const ScheduleRow* row_;
  mutable Known known_, averaged_;
};

}  // namespace amp
