// Values of flags: text -> typed value, checked against the flag's type and range, and back.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "tools/cli/flags.h"

namespace amp::cli {

using Value = std::variant<bool, int64_t, double, std::string, std::vector<std::string>>;

// Usage errors name flag, value and what is allowed. Every flag but a list takes exactly one text.
Value parse_value(const Flag& flag, std::span<const std::string> texts);
Value default_value(const Flag& flag, Verb verb);
std::string value_text(const Value& v);  // parse_value of it gives v again; list elements are joined by ", "

std::optional<bool> parse_bool(std::string_view text);        // true false yes no on off 1 0, any case
std::optional<int64_t> parse_integer(std::string_view text);  // "65536", "1e6", "3.0"
std::optional<double> parse_number(std::string_view text);    // "5e-5", "inf"; not "nan"
std::string number_text(double v);                            // shortest text that reads back as v

// "3,6-8" -> {{3,3},{6,8}}: attempted steps, first and last, counted from 0. "" is none.
using StepRanges = std::vector<std::pair<int64_t, int64_t>>;
std::optional<StepRanges> parse_steps(std::string_view text);

// "accuracy>=0.85": a run whose final metric fails it exits 12. met() is false for NaN.
struct Gate {
  std::string metric;    // a name of metric_names()
  std::string relation;  // >=, >, <= or <
  double bound = 0;
  bool met(double value) const;
};
std::optional<Gate> parse_gate(std::string_view text);
std::span<const std::string_view> metric_names();

// Canonical forms of flags whose values have a syntax of their own; for the flag table.
std::optional<std::string> normal_loss_scale(std::string_view text);  // "dynamic" (0 too), or a number above 0
std::optional<std::string> normal_delimiter(std::string_view text);   // "auto", or one byte; "tab", "\t", "comma" ...
std::optional<std::string> normal_steps(std::string_view text);
std::optional<std::string> normal_gate(std::string_view text);
std::optional<std::string> normal_max_length(std::string_view text);  // 0 (no limit), or 2 and more

}  // namespace amp::cli
