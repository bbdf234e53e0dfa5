// Registry and evaluation of schedules. A ScheduleRow computes the learning rate from a factor per step. Some rows also
// have a recursion (ScheduleRow::next), as torch schedulers that multiply the previous rate; chained() evaluates it
// from the last cached step.

#include "trainer/loop/schedule.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/setting_name.h"
#include "base/text.h"
#include "trainer/schedules/cosine.h"
#include "trainer/schedules/decay.h"
#include "trainer/schedules/linear.h"
#include "trainer/schedules/one_cycle.h"
#include "trainer/schedules/plateau.h"
#include "trainer/schedules/timm.h"
#include "trainer/schedules/timm_wsd.h"
#include "trainer/schedules/warmup_stable_decay.h"

namespace amp {

const std::vector<const ScheduleRow*>& schedule_rows() {
  static const std::vector<const ScheduleRow*> rows = {&kLinear,
                                                       &kCosine,
                                                       &kCosineWithRestarts,
                                                       &kCosineWithMinLr,
                                                       &kPolynomial,
                                                       &kConstant,
                                                       &kConstantWithWarmup,
                                                       &kInverseSqrt,
                                                       &kWarmupStableDecay,
                                                       &kOneCycle,
                                                       &kStep,
                                                       &kMultiStep,
                                                       &kExponential,
                                                       &kNoam,
                                                       &kReduceLrOnPlateau,
                                                       &kTimmCosine,
                                                       &kTimmPoly,
                                                       &kTimmTanh,
                                                       &kTimmWsd,
                                                       &kTimmRsqrt,
                                                       &kTimmStep,
                                                       &kTimmMultistep};
  return rows;
}

namespace {

void require(bool ok, const std::string& flag, const std::string& value, const std::string& range) {
  if (!ok) fail(Exit::usage, "E_FLAG_RANGE", cat(setting_name(flag), " is ", printable(value)), "give " + range);
}

// Converts a text that is one number. Returns NaN if the text is not a number or other characters follow.
double number_in(const std::string& text) {
  size_t used = 0;
  try {
    const double x = std::stod(text, &used);
    return used == text.size() ? x : std::nan("");
  } catch (const std::exception&) {
    return std::nan("");
  }
}

void check_setting(const ScheduleKey& k, const std::string& value) {
  if (value.empty()) return;
  const std::string flag = "lr_scheduler_kwargs " + k.name;
  if (!k.words.empty()) {
    require(std::find(k.words.begin(), k.words.end(), value) != k.words.end(), flag, value,
            "one of: " + join(k.words, ", "));
    return;
  }
  const std::string range = k.high < 1e14 ? cat("a number in [", k.low, ", ", k.high, "]") : cat("a number >= ", k.low);
  for (const std::string& part : k.list ? split(value, ':') : std::vector<std::string>{value}) {
    const double x = number_in(part);
    require(x >= k.low && x <= k.high && std::isfinite(x), flag, value,
            k.list ? range + ", several parted by ':'" : range);
  }
}

}  // namespace

std::string schedule_from_name(const std::string& name) {
  std::string plain = name;
  std::replace(plain.begin(), plain.end(), '-', '_');
  if (plain == "onecycle") plain = "one_cycle";
  if (plain == "wsd") plain = "warmup_stable_decay";
  std::vector<std::string> known;
  for (const ScheduleRow* row : schedule_rows()) {
    if (plain == row->name) return plain;
    known.emplace_back(row->name);
  }
  const std::string near = nearest(plain, known);
  fail(Exit::usage, "E_FLAG_VALUE", cat("`lr_scheduler`: unknown schedule '", printable(name), "'"),
       cat(near.empty() ? "" : "did you mean '" + near + "'? ", "one of: ", join(known, ", ")));
}

int64_t resolve_warmup(double warmup_steps, int64_t total_steps) {
  require(warmup_steps >= 0 && warmup_steps < 1e15, "warmup_steps", cat(warmup_steps),
          "a number of steps, or a fraction of the run below 1");
  if (warmup_steps >= 1) return static_cast<int64_t>(warmup_steps);
  return static_cast<int64_t>(std::ceil(static_cast<double>(total_steps) * warmup_steps));
}

Schedule::Schedule(const ScheduleConfig& config) : c_(config), row_(nullptr) {
  const std::string kind = schedule_from_name(c_.kind);
  for (const ScheduleRow* row : schedule_rows()) {
    if (kind == row->name) row_ = row;
  }
  require(c_.lr >= 0 && std::isfinite(c_.lr), "lr", cat(c_.lr), "a number >= 0");
  warmup_ = resolve_warmup(c_.warmup_steps, c_.total_steps);
  std::vector<std::string> names;
  for (const ScheduleKey& k : row_->keys) names.push_back(k.name);
  for (const auto& [name, value] : c_.settings) {
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    const std::string near = nearest(name, names);
    fail(Exit::usage, "E_FLAG_VALUE", cat("`lr_scheduler_kwargs`: ", kind, " has no '", printable(name), "'"),
         names.empty() ? kind + " has no settings"
                       : cat(near.empty() ? "" : "did you mean '" + near + "'? ", kind, " has: ", join(names, ", ")));
  }
  for (const ScheduleKey& k : row_->keys) {
    c_.settings.emplace(k.name, k.initial);
    check_setting(k, c_.settings.at(k.name));
  }
  if (kind == "polynomial") {
    const std::string end = c_.settings.at("lr_end");
    require(c_.lr > number_in(end), "lr_scheduler_kwargs lr_end", end, cat("a number below `lr`, which is ", c_.lr));
  }
  if (kind == "multistep")
    require(!c_.settings.at("milestones").empty(), "lr_scheduler_kwargs milestones", "not given",
            "the steps at which the rate falls: milestones=100:200");
}

SchedulePoint Schedule::point(int64_t applied) const {
  int64_t step = std::max<int64_t>(0, applied - c_.begin);
  if (c_.hold) step = std::min(step, std::max<int64_t>(0, c_.total_steps - 1));
  return {step, warmup_, c_.total_steps, c_.lr, &c_.settings, c_.epoch_steps};
}

std::optional<double> Schedule::momentum(int64_t applied) const {
  return row_->momentum ? row_->momentum(point(applied)) : std::nullopt;
}

double Schedule::lr(int64_t applied) const {
  if (!c_.averaged || applied < c_.averaged->start) return scheduled(applied);
  const AveragedRate& a = *c_.averaged;
  if (averaged_.step < a.start || averaged_.step > applied) averaged_ = {a.start, a.next(0, scheduled(a.start))};
  while (averaged_.step < applied) {
    ++averaged_.step;
    averaged_.rate = a.next(averaged_.step - a.start, averaged_.rate);
  }
  return averaged_.rate;
}

// Returns the annealed rate as torch's SWALR: the schedule's rate is recovered from the previous annealed rate.
double AveragedRate::next(int64_t k, double before) const {
  const double step = static_cast<double>(anneal_steps == 0 ? std::max<int64_t>(1, k) : k);
  const auto alpha = [&](double at) {
    const double t = std::clamp(at / SchedulePoint::at_least_one(anneal_steps), 0.0, 1.0);
    return cosine ? (1 - std::cos(std::numbers::pi * t)) / 2 : t;
  };
  const double was = alpha(step - 1), now = alpha(step), from = was == 1 ? lr : (before - was * lr) / (1 - was);
  return lr * now + from * (1 - now);
}

double Schedule::scheduled(int64_t applied) const {
  const SchedulePoint at = point(applied);
  if (row_->next && at.step > warmup_) return chained(at);
  const double x = row_->factor(at);
  return row_->is_rate ? x : c_.lr * x;
}

double Schedule::chained(SchedulePoint at) const {
  const int64_t wanted = at.step;
  if (known_.step < warmup_ || known_.step > wanted) {
    at.step = warmup_;
    known_ = {warmup_, c_.lr * row_->factor(at)};
  }
  while (known_.step < wanted) {
    at.step = ++known_.step;
    known_.rate = row_->next(at, known_.rate);
  }
  return known_.rate;
}

std::vector<double> Schedule::table(int64_t steps) const {
  std::vector<double> out;
  for (int64_t i = 0; i < steps; ++i) out.push_back(lr(i));
  return out;
}

}  // namespace amp
