#include "trainer/schedule.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "base/error.h"
#include "base/text.h"

namespace amp {

namespace {
constexpr std::array kNames{std::pair{ScheduleKind::linear, "linear"},
                            std::pair{ScheduleKind::cosine, "cosine"},
                            std::pair{ScheduleKind::cosine_with_restarts, "cosine_with_restarts"},
                            std::pair{ScheduleKind::polynomial, "polynomial"},
                            std::pair{ScheduleKind::constant, "constant"},
                            std::pair{ScheduleKind::constant_with_warmup, "constant_with_warmup"},
                            std::pair{ScheduleKind::inverse_sqrt, "inverse_sqrt"},
                            std::pair{ScheduleKind::one_cycle, "one_cycle"}};

void require(bool ok, const char* flag, double value, const std::string& range) {
  if (!ok) fail(Exit::usage, "E_FLAG_RANGE", cat("--", flag, " is ", value), "give " + range);
}

double at_least_one(int64_t n) { return static_cast<double>(std::max<int64_t>(1, n)); }
}  // namespace

ScheduleKind schedule_from_name(const std::string& name) {
  std::string plain = name;
  std::replace(plain.begin(), plain.end(), '-', '_');
  if (plain == "onecycle") plain = "one_cycle";
  std::vector<std::string> known;
  for (const auto& [kind, text] : kNames) {
    if (plain == text) return kind;
    known.emplace_back(text);
  }
  const std::string near = nearest(plain, known);
  fail(Exit::usage, "E_FLAG_VALUE", cat("--lr_scheduler: unknown schedule '", printable(name), "'"),
       cat(near.empty() ? "" : "did you mean '" + near + "'? ", "one of: ", join(known, ", ")));
}

std::string name_of(ScheduleKind kind) {
  for (const auto& [k, text] : kNames) {
    if (k == kind) return text;
  }
  return {};
}

int64_t resolve_warmup(double warmup_steps, int64_t total_steps) {
  require(warmup_steps >= 0 && warmup_steps < 1e15, "warmup_steps", warmup_steps,
          "a number of steps, or a fraction of the run below 1");
  if (warmup_steps >= 1) return static_cast<int64_t>(warmup_steps);
  return static_cast<int64_t>(std::ceil(static_cast<double>(total_steps) * warmup_steps));
}

Schedule::Schedule(const ScheduleConfig& config) : c_(config) {
  require(c_.lr >= 0 && std::isfinite(c_.lr), "lr", c_.lr, "a number >= 0");
  require(c_.warmup_steps >= 0, "warmup_steps", static_cast<double>(c_.warmup_steps), "a number >= 0");
  if (!c_.num_cycles) c_.num_cycles = c_.kind == ScheduleKind::cosine ? 0.5 : 1;
  if (!c_.timescale) c_.timescale = c_.warmup_steps > 0 ? c_.warmup_steps : 10000;
  require(*c_.timescale > 0, "lr_timescale", static_cast<double>(*c_.timescale), "a number of steps above 0");
  if (c_.kind == ScheduleKind::polynomial) {
    require(c_.lr > c_.lr_end && c_.lr_end >= 0, "lr_end", c_.lr_end,
            cat("a number >= 0 below --lr, which is ", c_.lr));
  }
  if (c_.kind == ScheduleKind::one_cycle) {
    require(c_.pct_start >= 0 && c_.pct_start <= 1, "pct_start", c_.pct_start, "a number in [0, 1]");
    require(c_.div_factor > 0 && c_.final_div_factor > 0, "div_factor", c_.div_factor, "a number above 0");
  }
}

double Schedule::lr(int64_t applied) const {
  return c_.kind == ScheduleKind::one_cycle ? one_cycle(applied) : c_.lr * factor(applied);
}

std::vector<double> Schedule::table(int64_t steps) const {
  std::vector<double> out;
  for (int64_t i = 0; i < steps; ++i) out.push_back(lr(i));
  return out;
}

double Schedule::factor(int64_t step) const {
  if (c_.kind == ScheduleKind::constant) return 1;
  if (step < c_.warmup_steps) return static_cast<double>(step) / at_least_one(c_.warmup_steps);
  const double done = static_cast<double>(step - c_.warmup_steps);
  const double progress = done / at_least_one(c_.total_steps - c_.warmup_steps);
  switch (c_.kind) {
    case ScheduleKind::linear:
      return std::max(0.0, static_cast<double>(c_.total_steps - step) / at_least_one(c_.total_steps - c_.warmup_steps));
    case ScheduleKind::cosine:
      // Hugging Face's wave rises again past the end of the run; ours stays at its last value.
      return std::max(0.0, 0.5 * (1 + std::cos(std::numbers::pi * *c_.num_cycles * 2 * std::min(progress, 1.0))));
    case ScheduleKind::cosine_with_restarts:
      if (progress >= 1) return 0;
      return std::max(0.0, 0.5 * (1 + std::cos(std::numbers::pi * std::fmod(*c_.num_cycles * progress, 1.0))));
    case ScheduleKind::polynomial:
      if (progress >= 1) return c_.lr_end / c_.lr;
      return ((c_.lr - c_.lr_end) * std::pow(1 - progress, c_.power) + c_.lr_end) / c_.lr;
    case ScheduleKind::inverse_sqrt: {
      const auto scale = static_cast<double>(*c_.timescale);
      return 1 / std::sqrt((done + scale) / scale);
    }
    default:
      return 1;
  }
}

double Schedule::one_cycle(int64_t step) const {
  const double start = c_.lr / c_.div_factor, low = start / c_.final_div_factor;
  const double peak = c_.pct_start * static_cast<double>(c_.total_steps) - 1;
  const auto last = static_cast<double>(c_.total_steps - 1);
  const double at = std::min(static_cast<double>(step), last);
  const auto anneal = [](double from, double to, double part) {
    return to + (from - to) / 2 * (std::cos(std::numbers::pi * part) + 1);
  };
  if (at <= peak) return anneal(start, c_.lr, peak > 0 ? at / peak : 1);
  // As in torch the second phase starts where the first ended, even when that lies before step 0.
  return anneal(c_.lr, low, last > peak ? (at - peak) / (last - peak) : 1);
}

}  // namespace amp
