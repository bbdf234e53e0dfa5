// Values of settings as text, and the parsers of values that have a syntax: step ranges, gates (METRIC>=X) and
// key=value lists.
#include "run/settings/values.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/number_text.h"
#include "base/setting_name.h"
#include "base/text.h"
#include "trainer/tasks/task.h"

namespace amp {

std::string value_text(const SettingValue& v) {
  if (const auto* b = std::get_if<bool>(&v)) return *b ? "true" : "false";
  if (const auto* i = std::get_if<int64_t>(&v)) return std::to_string(*i);
  if (const auto* d = std::get_if<double>(&v)) return number_text(*d);
  if (const auto* s = std::get_if<std::string>(&v)) return *s;
  return join(std::get<std::vector<std::string>>(v), ", ");
}

std::optional<StepRanges> parse_steps(std::string_view text) {
  StepRanges out;
  if (text.empty()) return out;
  for (const std::string& part : split(text, ',')) {
    const size_t dash = part.find('-');
    const auto first = parse_integer(std::string_view(part).substr(0, dash));
    const auto last = dash == std::string::npos ? first : parse_integer(std::string_view(part).substr(dash + 1));
    if (!first || !last || *first < 0 || *last < *first) return std::nullopt;
    out.emplace_back(*first, *last);
  }
  return out;
}

std::span<const std::string_view> metric_names() {
  static const std::vector<std::string> names = all_metric_names();
  static const std::vector<std::string_view> views(names.begin(), names.end());
  return views;
}

bool Gate::met(double value) const {
  if (relation == ">=") return value >= bound;
  if (relation == "<=") return value <= bound;
  return relation == ">" ? value > bound : value < bound;
}

std::optional<Gate> parse_gate(std::string_view text) {
  const size_t at = text.find_first_of("<>");
  if (at == std::string_view::npos) return std::nullopt;
  const size_t width = text.substr(at + 1).starts_with('=') ? 2 : 1;
  std::string_view name = text.substr(0, at), bound = text.substr(at + width);
  while (name.ends_with(' ')) name.remove_suffix(1);
  while (bound.starts_with(' ')) bound.remove_prefix(1);
  if (name.starts_with("eval_")) name.remove_prefix(5);
  if (name == "f1") name = "macro_f1";
  const auto number = parse_number(bound);
  if (!number || !std::isfinite(*number)) return std::nullopt;
  for (const std::string_view metric : metric_names()) {
    if (name == metric) return Gate{std::string(name), std::string(text.substr(at, width)), *number};
  }
  return std::nullopt;
}

std::map<std::string, std::string> parse_arguments(std::string_view setting, const std::string& text) {
  std::map<std::string, std::string> out;
  const auto refuse = [&](const std::string& part) {
    fail(Exit::usage, "E_FLAG_VALUE", cat(setting_name(setting), ": '", printable(part), "' is not understood"),
         "write key=value,key=value or a JSON object");
  };
  if (!text.empty() && text.front() == '{') {
    const nlohmann::json j = nlohmann::json::parse(text, nullptr, false);
    if (!j.is_object()) refuse(text);
    for (const auto& [name, value] : j.items()) {
      if (value.is_structured() || value.is_null()) refuse(name);
      out[name] = value.is_string() ? value.get<std::string>() : value.dump();
    }
    return out;
  }
  for (const std::string& part : text.empty() ? std::vector<std::string>{} : split(text, ',')) {
    const size_t eq = part.find('=');
    const auto trimmed = [](std::string s) {
      s.erase(0, s.find_first_not_of(' '));
      s.erase(s.find_last_not_of(' ') + 1);
      return s;
    };
    const std::string key = trimmed(part.substr(0, eq)),
                      value = eq == std::string::npos ? "" : trimmed(part.substr(eq + 1));
    if (key.empty() || value.empty() || !out.emplace(key, value).second) refuse(part);
  }
  return out;
}

}  // namespace amp
