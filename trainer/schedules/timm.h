// timm's schedulers (timm.scheduler.create_scheduler_v2), per epoch or, with sched_on_updates, per update. timm's
// --epochs excludes the cooldown, further cycles and a prefixed warm-up; the steps of a run here include all of them:
//
//   total = cycles of cycle_epochs + cooldown_epochs (+ warmup_epochs, with warmup_prefix)
//
// Noise is not implemented.
#pragma once

#include "trainer/schedules/row.h"

namespace amp {

// A point in timm's unit of time: whole epochs, or updates.
struct TimmPoint {
  const SchedulePoint& p;
  bool updates, prefix;
  double unit;    // length of an epoch in this unit
  double t;       // the current time
  double warmup;  // warmup_epochs, or --warmup_steps if that is not given

  explicit TimmPoint(const SchedulePoint& at)
      : p(at), updates(at.text("sched_on_updates") == "true"), prefix(at.text("warmup_prefix") == "true") {
    const double epoch = SchedulePoint::at_least_one(at.epoch_steps);
    unit = updates ? epoch : 1;
    t = updates ? static_cast<double>(at.step) : std::floor(static_cast<double>(at.step) / epoch);
    warmup =
        at.has("warmup_epochs") ? at.number("warmup_epochs") * unit : static_cast<double>(at.warmup) * unit / epoch;
  }
  double total() const { return static_cast<double>(p.total) * unit / SchedulePoint::at_least_one(p.epoch_steps); }
  double of_epochs(const char* key) const { return p.number(key) * unit; }
  // Returns the rate during warm-up and in the first step; else empty.
  std::optional<double> started() const {
    if (t < warmup) return p.number("warmup_lr") + t * ((p.lr - p.number("warmup_lr")) / warmup);
    return t == 0 ? std::optional(p.lr) : std::nullopt;
  }
  double behind() const { return prefix ? t - warmup : t; }
};

// Returns the floor of n / of, as Python's n // of.
inline double whole_times(double n, double of) { return std::round((n - std::fmod(n, of)) / of); }

inline std::vector<ScheduleKey> timm_keys(std::vector<ScheduleKey> more) {
  std::vector<ScheduleKey> keys{{"warmup_epochs", ""},
                                {"warmup_lr", "1e-5"},
                                {"warmup_prefix", "false", 0, 0, {"false", "true"}},
                                {"sched_on_updates", "false", 0, 0, {"false", "true"}}};
  keys.insert(keys.end(), more.begin(), more.end());
  return keys;
}

inline std::vector<ScheduleKey> timm_cycle_keys(std::vector<ScheduleKey> more) {
  std::vector<ScheduleKey> keys = timm_keys({{"cycle_epochs", "", 1e-300},
                                             {"cooldown_epochs", "0"},
                                             {"min_lr", "0"},
                                             {"cycle_mul", "1", 1e-300},
                                             {"cycle_decay", "0.1"},
                                             {"cycle_limit", "1", 1},
                                             {"k_decay", "1", 1e-300}});
  keys.insert(keys.end(), more.begin(), more.end());
  return keys;
}

// Returns the rate of a cyclic schedule at time t. wave(time since the cycle's start, length of the cycle) falls from 1
// to 0.
template <class Wave>
double timm_cycles_at(const SchedulePoint& p, const TimmPoint& at, double t, Wave&& wave) {
  const double mul = p.number("cycle_mul"), limit = p.number("cycle_limit"), low = p.number("min_lr");
  const double cycles = mul == 1 ? limit : (std::pow(mul, limit) - 1) / (mul - 1);
  const double first = p.has("cycle_epochs")
                           ? at.of_epochs("cycle_epochs")
                           : (at.total() - at.of_epochs("cooldown_epochs") - (at.prefix ? at.warmup : 0)) / cycles;
  if (!(first > 0)) return low;
  double cycle = whole_times(t, first), length = first, now = t - first * cycle;
  if (mul != 1) {
    const double inside = 1 - t / first * (1 - mul);
    if (!(inside > 0)) return low;  // after the end of all cycles, whose lengths decrease
    cycle = std::floor(std::log(inside) / std::log(mul));
    length = std::pow(mul, cycle) * first;
    now = t - (1 - std::pow(mul, cycle)) / (1 - mul) * first;
  }
  if (cycle >= limit) return low;
  const double high = p.lr * std::pow(p.number("cycle_decay"), cycle);
  return low + (high - low) * wave(now, length);
}
template <class Wave>
double timm_cycles(const SchedulePoint& p, Wave&& wave) {
  const TimmPoint at(p);
  if (const auto rate = at.started()) return *rate;
  return timm_cycles_at(p, at, at.behind(), wave);
}

inline const ScheduleRow kTimmCosine{
    "timm_cosine", timm_cycle_keys({}),
    [](const SchedulePoint& p) {
      return timm_cycles(p, [&](double now, double length) {
        const double k = p.number("k_decay");
        return 0.5 * (1 + std::cos(std::numbers::pi * std::pow(now, k) / std::pow(length, k)));
      });
    },
    "timm's CosineLRScheduler", true};

inline const ScheduleRow kTimmPoly{"timm_poly", timm_cycle_keys({{"decay_rate", "0.1"}}),
                                   [](const SchedulePoint& p) {
                                     return timm_cycles(p, [&](double now, double length) {
                                       const double k = p.number("k_decay");
                                       return std::pow(1 - std::pow(now, k) / std::pow(length, k),
                                                       p.number("decay_rate"));
                                     });
                                   },
                                   "timm's PolyLRScheduler; decay_rate is the power", true};

// Without warmup_prefix the warm-up rises to the value that the curve has at the end of the warm-up.
struct TimmTanh {
  static double wave(double now, double length) {
    const double part = now / length;
    return 0.5 * (1 - std::tanh(-7.0 * (1.0 - part) + 3.0 * part));
  }
  static double rate(const SchedulePoint& p) {
    const TimmPoint at(p);
    if (at.t >= at.warmup || at.prefix) return timm_cycles(p, wave);
    const double low = p.number("warmup_lr"), top = timm_cycles_at(p, at, at.warmup, wave);
    return low + at.t * ((top - low) / at.warmup);
  }
};

inline const ScheduleRow kTimmTanh{"timm_tanh", timm_cycle_keys({}), TimmTanh::rate,
                                   "timm's TanhLRScheduler (Hsueh et al. 2018); k_decay does not act", true};

inline const ScheduleRow kTimmStep{"timm_step", timm_keys({{"decay_epochs", "90", 1e-300}, {"decay_rate", "0.1"}}),
                                   [](const SchedulePoint& p) {
                                     const TimmPoint at(p);
                                     if (const auto rate = at.started()) return *rate;
                                     const double times = whole_times(at.behind(), at.of_epochs("decay_epochs"));
                                     return p.lr * std::pow(p.number("decay_rate"), times);
                                   },
                                   "timm's StepLRScheduler", true};

// A milestone m (in epochs) takes effect at m - 1, as in timm.
inline const ScheduleRow kTimmMultistep{
    "timm_multistep", timm_keys({{"decay_milestones", "90:180:270", 0, 1e15, {}, true}, {"decay_rate", "0.1"}}),
    [](const SchedulePoint& p) {
      const TimmPoint at(p);
      if (const auto rate = at.started()) return *rate;
      int passed = 0;
      for (const double m : p.numbers("decay_milestones")) passed += m * at.unit <= at.behind() + 1;
      return p.lr * std::pow(p.number("decay_rate"), passed);
    },
    "timm's MultiStepLRScheduler", true};

}  // namespace amp
