// ScheduleRow: definition of a learning-rate schedule: its name, its settings, and the factor of the learning rate at a
// step. To add one, write a file here and list its row in trainer/loop/schedule.cc.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <numbers>
#include <optional>
#include <string>
#include <vector>

#include "base/text.h"

namespace amp {

// A setting of --lr_scheduler_kwargs: a number in [low, high], or one of `words`.
struct ScheduleKey {
  std::string name;
  std::string initial;  // as text; empty: not set
  double low = 0, high = std::numeric_limits<double>::infinity();
  std::vector<std::string> words = {};
  bool list = false;  // numbers separated by ':'
};

struct SchedulePoint {
  int64_t step = 0;  // number of applied steps before this step
  int64_t warmup = 0, total = 0;
  double lr = 0;  // --lr, the highest rate
  const std::map<std::string, std::string>* settings = nullptr;
  int64_t epoch_steps = 1;  // steps per epoch

  const std::string& text(const std::string& key) const { return settings->at(key); }
  bool has(const std::string& key) const { return !settings->at(key).empty(); }
  double number(const std::string& key) const { return std::stod(settings->at(key)); }
  std::vector<double> numbers(const std::string& key) const {  // for lists
    std::vector<double> out;
    for (const std::string& part : split(settings->at(key), ':')) out.push_back(std::stod(part));
    return out;
  }
  int64_t whole(const std::string& key) const { return static_cast<int64_t>(std::llround(number(key))); }

  // Returns the factor of a linear warm-up; empty after its end.
  std::optional<double> warming() const {
    if (step >= warmup) return std::nullopt;
    return static_cast<double>(step) / at_least_one(warmup);
  }
  double done() const { return static_cast<double>(step - warmup); }
  double progress() const { return done() / at_least_one(total - warmup); }  // 0 .. 1 after the warm-up
  static double at_least_one(int64_t n) { return static_cast<double>(std::max<int64_t>(1, n)); }
};

struct ScheduleRow {
  const char* name;
  std::vector<ScheduleKey> keys;
  double (*factor)(const SchedulePoint&);
  const char* about;     // formula or source, for docs
  bool is_rate = false;  // factor returns the rate itself instead of a multiple of lr
  std::optional<double> (*momentum)(const SchedulePoint&) = nullptr;  // for schedules that also cycle the momentum
  // For recursive schedules, as torch's chainable ones: computes the rate of a step after the warm-up from the previous
  // step's rate. factor then applies only until the warm-up ends.
  double (*next)(const SchedulePoint&, double before) = nullptr;
};

}  // namespace amp
