// Learning-rate schedules: functions of the number of applied steps before this one (a skipped step advances nothing).
// Each is a row of trainer/schedules/, named as in Hugging Face's get_scheduler or torch.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "trainer/schedules/row.h"

namespace amp {

const std::vector<const ScheduleRow*>& schedule_rows();
// "linear", "one-cycle", ...: the name of a row; usage error otherwise.
std::string schedule_from_name(const std::string& name);

// --warmup_steps: an integer, or below 1 a fraction of the total, rounded up.
int64_t resolve_warmup(double warmup_steps, int64_t total_steps);

// The rate while weights are averaged, torch's SWALR: from applied step `start` on it goes from the schedule's to `lr`
// within anneal_steps, and stays there.
struct AveragedRate {
  int64_t start = 0;
  double lr = 0;
  int64_t anneal_steps = 10;
  bool cosine = true;  // else linear

  // k steps behind start, from the rate of the step before; of k = 0, from the schedule's.
  double next(int64_t k, double before) const;
};

struct ScheduleConfig {
  std::string kind = "linear";  // a row's name
  double lr = 5e-5;
  double warmup_steps = 0;                      // as resolve_warmup() takes it
  int64_t total_steps = 0;                      // that it is laid out over, in applied steps
  std::map<std::string, std::string> settings;  // by the row's keys; what is left out has the row's default
  int64_t begin = 0;                            // applied steps before its first one
  bool hold = false;                            // behind its last step: that one's rate
  int64_t epoch_steps = 1;                      // of an epoch, for schedules that move by epochs
  std::optional<AveragedRate> averaged = {};
};

class Schedule {
 public:
  // Usage error naming the flag, or the setting, of a value out of range.
  explicit Schedule(const ScheduleConfig& config);
  // Past the end: the last value, where the schedule has an end. The last rate is kept, for schedules that go on from
  // it: one thread at a time.
  double lr(int64_t applied) const;
  std::optional<double> momentum(int64_t applied) const;  // where the schedule cycles it
  std::vector<double> table(int64_t steps) const;  // lr(0), lr(1), ...: what a device indexes by its step counter
  const ScheduleConfig& config() const { return c_; }

 private:
  SchedulePoint point(int64_t applied) const;
  struct Known {  // the rate of a step from which others go on
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
