// Flags whose values have a syntax of their own: steps, gates, loss scale, delimiter, length.
#include <array>
#include <cmath>

#include "base/text.h"
#include "tools/cli/values.h"

namespace amp::cli {

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

static constexpr std::array<std::string_view, 17> kMetrics{
    "accuracy",      "macro_f1", "loss", "micro_f1", "exact_match", "span_f1", "entity_f1", "entity_precision", "mrr",
    "entity_recall", "mse",      "mae",  "pearson",  "spearman",    "miou",    "dice",      "perplexity"};
std::span<const std::string_view> metric_names() { return kMetrics; }

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
  for (const std::string_view metric : kMetrics) {
    if (name == metric) return Gate{std::string(name), std::string(text.substr(at, width)), *number};
  }
  return std::nullopt;
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
