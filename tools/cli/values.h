// Values of flags: text -> typed value, checked against the flag's type and range, and back.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/number_text.h"
#include "run/values.h"
#include "tools/cli/flags.h"

namespace amp::cli {

using Value = SettingValue;

// Usage errors name flag, value and what is allowed. Every flag but a list takes exactly one text.
Value parse_value(const Flag& flag, std::span<const std::string> texts);
Value default_value(const Flag& flag, Verb verb);

// Canonical forms of flags whose values have a syntax of their own; for the flag table.
std::optional<std::string> normal_loss_scale(std::string_view text);  // "dynamic" (0 too), or a number above 0
std::optional<std::string> normal_delimiter(std::string_view text);   // "auto", or one byte; "tab", "\t", "comma" ...
std::optional<std::string> normal_steps(std::string_view text);
std::optional<std::string> normal_gate(std::string_view text);
std::optional<std::string> normal_max_length(std::string_view text);  // 0 (no limit), or 2 and more

}  // namespace amp::cli
