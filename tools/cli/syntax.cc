// Flags whose values have a syntax of their own: steps, gates, loss scale, delimiter, length.
#include <array>
#include <cmath>

#include "base/text.h"
#include "tools/cli/values.h"

namespace amp::cli {

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

std::optional<std::string> normal_max_length(std::string_view text) {
  const auto n = parse_integer(text);
  return n && (*n == 0 || *n >= 2) ? std::optional(std::to_string(*n)) : std::nullopt;
}

}  // namespace amp::cli
