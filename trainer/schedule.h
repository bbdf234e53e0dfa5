// Learning-rate schedules: functions of the number of applied steps before this one (a skipped step advances nothing).
// Formulas are Hugging Face's get_scheduler's and, for one_cycle, torch's OneCycleLR's (two phases, cosine).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace amp {

enum class ScheduleKind {
  linear,                // warm-up, then down to 0
  cosine,                // warm-up, then num_cycles (0.5) waves
  cosine_with_restarts,  // warm-up, then num_cycles (1) times from the top to 0
  polynomial,            // warm-up, then down to lr_end
  constant,
  constant_with_warmup,
  inverse_sqrt,  // warm-up, then 1 / sqrt(step)
  one_cycle,     // up from lr / div_factor over pct_start of the steps, down to lr / div_factor / final_div_factor
};

ScheduleKind schedule_from_name(
    const std::string& name);  // "linear", "one_cycle", "one-cycle"...; usage error otherwise
std::string name_of(ScheduleKind kind);

// --warmup_steps: an integer, or below 1 a fraction of the total, rounded up.
int64_t resolve_warmup(double warmup_steps, int64_t total_steps);

struct ScheduleConfig {
  ScheduleKind kind = ScheduleKind::linear;
  double lr = 5e-5;
  int64_t warmup_steps = 0;
  int64_t total_steps = 0;           // of the whole run, in applied steps
  std::optional<double> num_cycles;  // cosine: 0.5, cosine_with_restarts: 1
  double power = 1, lr_end = 1e-7;   // polynomial
  std::optional<int64_t> timescale;  // inverse_sqrt: warmup_steps, or 10000 without warm-up
  double pct_start = 0.3, div_factor = 25, final_div_factor = 1e4;  // one_cycle
};

class Schedule {
 public:
  explicit Schedule(const ScheduleConfig& config);  // usage error naming the flag of a value out of range
  double lr(int64_t applied) const;                 // past total_steps: the last value
  std::vector<double> table(int64_t steps) const;   // lr(0), lr(1), ...: what a device indexes by its step counter
  const ScheduleConfig& config() const { return c_; }

 private:
  double factor(int64_t step) const;
  double one_cycle(int64_t step) const;
  ScheduleConfig c_;
};

}  // namespace amp
