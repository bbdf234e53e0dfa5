// A schedule is a row: its name, what it may be set to, and the factor of the learning rate at a step. Adding one is
// a file here and its row in trainer/loop/schedule.cc.
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

// A setting, as --lr_scheduler_kwargs names it: a number in [low, high], or one of `words`.
struct ScheduleKey {
  std::string name;
  std::string initial;  // as text; empty: not set
  double low = 0, high = std::numeric_limits<double>::infinity();
  std::vector<std::string> words = {};
  bool list = false;  // numbers, parted by ':'
};

struct SchedulePoint {
  int64_t step = 0;  // applied steps before this one
  int64_t warmup = 0, total = 0;
  double lr = 0;  // the highest
  const std::map<std::string, std::string>* settings = nullptr;
  int64_t epoch_steps = 1;  // of an epoch

  const std::string& text(const std::string& key) const { return settings->at(key); }
  bool has(const std::string& key) const { return !settings->at(key).empty(); }
  double number(const std::string& key) const { return std::stod(settings->at(key)); }
  std::vector<double> numbers(const std::string& key) const {  // of a list
    std::vector<double> out;
    for (const std::string& part : split(settings->at(key), ':')) out.push_back(std::stod(part));
    return out;
  }
  int64_t whole(const std::string& key) const { return static_cast<int64_t>(std::llround(number(key))); }

  // A linear warm-up's factor; nothing when it is over.
  std::optional<double> warming() const {
    if (step >= warmup) return std::nullopt;
    return static_cast<double>(step) / at_least_one(warmup);
  }
  double done() const { return static_cast<double>(step - warmup); }
  double progress() const { return done() / at_least_one(total - warmup); }  // 0 .. 1 behind the warm-up
  static double at_least_one(int64_t n) { return static_cast<double>(std::max<int64_t>(1, n)); }
};

struct ScheduleRow {
  const char* name;
  std::vector<ScheduleKey> keys;
  double (*factor)(const SchedulePoint&);
  const char* about;     // formula or source, for docs
  bool is_rate = false;  // factor is the rate itself, not what lr is multiplied by
  std::optional<double> (*momentum)(const SchedulePoint&) = nullptr;  // where it moves that too
  // Of a schedule that goes on from its last rate, as torch's chainable ones: the rate of a step behind the warm-up's
  // end from that of the step before. factor is that of the steps up to there.
  double (*next)(const SchedulePoint&, double before) = nullptr;
};

}  // namespace amp
