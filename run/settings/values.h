// Values of settings as data and as text, and two kinds of values with their own syntax: step ranges and gates.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace amp {

using SettingValue = std::variant<bool, int64_t, double, std::string, std::vector<std::string>>;
std::string value_text(const SettingValue& v);  // list elements are joined by ", "

// Parses "alpha=0.9,eps=1e-6" or a JSON object, the forms in which Hugging Face writes optim_args and
// lr_scheduler_kwargs. Usage error (E_FLAG_VALUE) with the setting's name.
std::map<std::string, std::string> parse_arguments(std::string_view setting, const std::string& text);

// "3,6-8" -> {{3,3},{6,8}}: first and last attempted steps, counted from 0. "" gives no ranges.
using StepRanges = std::vector<std::pair<int64_t, int64_t>>;
std::optional<StepRanges> parse_steps(std::string_view text);

// "accuracy>=0.85": a minimum or maximum that a metric of the final evaluation must meet. met() is false for NaN.
struct Gate {
  std::string metric;    // a name of metric_names()
  std::string relation;  // >=, >, <= or <
  double bound = 0;
  bool met(double value) const;
};
std::optional<Gate> parse_gate(std::string_view text);
std::span<const std::string_view> metric_names();

}  // namespace amp
