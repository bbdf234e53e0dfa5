// Parsers of values that have a syntax (bytes, delimiters, decays, GPUs, ports, sizes), and choices that come from
// other tables, such as optimizer names. normal_*() returns the canonical form of a valid text.
#include <algorithm>
#include <array>
#include <cmath>

#include "backend/update_rules.h"
#include "base/number_text.h"
#include "base/text.h"
#include "run/settings/rows/rows.h"
#include "trainer/loop/schedule.h"

namespace amp {

std::vector<std::string_view> optimizer_choices() {
  static const std::vector<std::string> names = update_rule_names();
  return {names.begin(), names.end()};
}

std::vector<std::string_view> schedule_choices() {
  std::vector<std::string_view> names;
  for (const ScheduleRow* row : schedule_rows()) names.emplace_back(row->name);
  return names;
}

std::vector<std::string_view> metric_choices() {
  std::vector<std::string_view> names{"auto"};
  for (const std::string_view m : metric_names()) names.push_back(m);
  return names;
}

std::optional<std::string> normal_gate(std::string_view text) {
  const auto gate = parse_gate(text);
  if (!gate) return std::nullopt;
  return gate->metric + gate->relation + number_text(gate->bound);
}

std::optional<std::string> normal_steps(std::string_view text) {
  return parse_steps(text) ? std::optional(std::string(text)) : std::nullopt;
}

std::optional<std::string> normal_loss_scale(std::string_view text) {
  if (text == "dynamic") return "dynamic";
  const auto v = parse_number(text);
  if (!v || *v < 0 || std::isinf(*v)) return std::nullopt;
  return *v == 0 ? "dynamic" : number_text(*v);
}

std::optional<std::string> normal_bytes(std::string_view text) {
  static constexpr std::array<std::pair<std::string_view, double>, 8> units{{{"KiB", 0x1p10},
                                                                             {"MiB", 0x1p20},
                                                                             {"GiB", 0x1p30},
                                                                             {"TiB", 0x1p40},
                                                                             {"kB", 1e3},
                                                                             {"MB", 1e6},
                                                                             {"GB", 1e9},
                                                                             {"B", 1}}};
  double unit = 1;
  for (const auto& [name, bytes] : units) {
    if (!text.ends_with(name)) continue;
    text.remove_suffix(name.size());
    while (text.ends_with(' ')) text.remove_suffix(1);
    unit = bytes;
    break;
  }
  const auto v = parse_number(text);
  if (!v || !(*v * unit >= 1) || *v * unit > 0x1p60) return std::nullopt;
  return std::to_string(static_cast<int64_t>(*v * unit));
}

std::optional<std::string> normal_delimiter(std::string_view text) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 6> names{
      {{"auto", "auto"}, {"tab", "\t"}, {"\\t", "\t"}, {"comma", ","}, {"semicolon", ";"}, {"pipe", "|"}}};
  for (const auto& [name, meaning] : names) {
    if (text == name) return std::string(meaning);
  }
  const bool usable =
      text.size() == 1 && text != "\"" && text != "\n" && text != "\r" && text != std::string_view("\0", 1);
  return usable ? std::optional(std::string(text)) : std::nullopt;
}

std::optional<std::string> normal_port(std::string_view text) {
  if (text == "off") return "off";
  const auto v = parse_integer(text);
  return v && *v >= 0 && *v <= 65535 ? std::optional(std::to_string(*v)) : std::nullopt;
}

std::optional<std::string> normal_decay(std::string_view text) {
  const auto v = parse_number(text);
  return v && *v >= 0 && *v < 1 ? std::optional(number_text(*v)) : std::nullopt;
}

std::optional<std::string> normal_weights(std::string_view text) {
  const std::string name = lower_case(text);
  if (name == "last" || name == "best" || name == "ema") return name;
  if (!name.starts_with("ema:")) return std::nullopt;
  const auto decay = normal_decay(std::string_view(name).substr(4));
  return decay ? std::optional("ema:" + *decay) : std::nullopt;
}

std::optional<std::string> normal_lora_export(std::string_view text) {
  std::vector<std::string> out;
  int models = 0;
  for (const std::string& part : split(lower_case(text), ',')) {
    const std::string form(trimmed(part));
    const bool model = one_of(form, {"merge", "keep", "slots"});
    if ((!model && !one_of(form, {"adapter", "peft"})) || std::find(out.begin(), out.end(), form) != out.end())
      return std::nullopt;
    models += model;
    out.push_back(form);
  }
  if (out.empty() || models > 1) return std::nullopt;
  return join(out, ",");
}

std::optional<std::string> normal_gpus(std::string_view text) {
  std::vector<std::string> out;
  for (const std::string& word : split(text, ',')) {
    const auto n = parse_integer(word);
    if (!n || *n < 0 || *n > 1023) return std::nullopt;
    const std::string number = std::to_string(*n);
    if (std::find(out.begin(), out.end(), number) != out.end()) return std::nullopt;
    out.push_back(number);
  }
  return join(out, ",");
}

std::optional<std::string> normal_max_length(std::string_view text) {
  const auto n = parse_integer(text);
  return n && (*n == 0 || *n >= 2) ? std::optional(std::to_string(*n)) : std::nullopt;
}

}  // namespace amp
