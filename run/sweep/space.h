// The search space of a sweep: settings with the values to try, and the trials (runs) that follow from it.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "run/settings/setting.h"

namespace amp {

// One setting of the space: either a list of values, or a range from which values are drawn.
struct SweepAxis {
  enum class Kind { list, uniform, log_uniform };
  const Setting* setting = nullptr;
  Kind kind = Kind::list;
  std::vector<std::vector<std::string>> values;  // list: the texts of each value; several for a list setting
  double low = 0, high = 0;                      // ranges: the bounds, which may be drawn
};
using SweepSpace = std::vector<SweepAxis>;

// A run of the sweep: the values of the swept settings, and a name such as "lr=1e-5,batch_size=16", which is also the
// name of the run's folder.
struct SweepTrial {
  std::string name;
  std::vector<std::pair<const Setting*, std::vector<std::string>>> values;  // in the order of the space
};

constexpr size_t kMostTrials = 10'000;

// Parses the short form "lr=1e-5,3e-5;batch_size=16,32" and "lr=log_uniform(1e-6,1e-3)" to the JSON that sweep_space()
// reads. Throws E_SWEEP.
nlohmann::ordered_json sweep_json(std::string_view text);

// Parses {"lr": [1e-5, 3e-5], "dropout": {"uniform": [0, 0.3]}}. find returns the setting of a key; it throws if
// the key is not a setting or cannot be varied. Throws E_SWEEP, and E_USAGE for a value that the setting does not
// allow.
SweepSpace sweep_space(const nlohmann::ordered_json& json,
                       const std::function<const Setting&(const std::string&)>& find);

// Returns the trials. count 0: the grid, whose first setting changes most slowly. count > 0: at most so many distinct
// random trials; trial k depends only on space, seed and k, so a larger count only appends trials. A space of lists
// may have fewer. Throws E_SWEEP.
std::vector<SweepTrial> sweep_trials(const SweepSpace& space, int64_t count, uint64_t seed);

}  // namespace amp
