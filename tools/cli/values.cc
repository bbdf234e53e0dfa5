#include "tools/cli/values.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"
#include "base/number_text.h"
#include "base/text.h"

namespace amp::cli {
namespace {

[[noreturn]] void refuse(const Flag& f, std::string_view text, std::string_view problem, std::string hint = {}) {
  const std::string allowed = f.allowed();
  fail(Exit::usage, "E_USAGE",
       cat("--", f.name, " ", printable(text), ": ", problem, allowed.empty() ? "" : "; allowed: ", allowed),
       std::move(hint));
}

void require_range(const Flag& f, std::string_view text, double v) {
  const bool low = f.low_open ? v > f.low : v >= f.low;
  const bool high = f.high_open ? v < f.high : v <= f.high;
  if (!low || !high || (std::isinf(v) && !f.infinity_allowed)) refuse(f, text, "out of range");
}

std::string_view translated(const Flag& f, std::string_view text) {
  for (const auto& [theirs, ours] : f.synonyms) {
    if (lower_case(text) == lower_case(theirs)) return ours;
  }
  return text;
}

std::string parse_text(const Flag& f, std::string_view given) {
  const std::string_view text = translated(f, given);
  if (text.empty()) refuse(f, "''", "the value is empty", "an unset shell variable?");
  if (!f.normalise) return std::string(text);
  const auto normal = f.normalise(text);
  if (!normal) refuse(f, given, "not understood");
  return *normal;
}

std::string parse_choice(const Flag& f, std::string_view given) {
  const std::string text = lower_case(translated(f, given));
  for (const std::string_view choice : f.choices) {
    if (lower_case(choice) == text) return std::string(choice);
  }
  std::vector<std::string> names(f.choices.begin(), f.choices.end());
  for (const auto& [theirs, ours] : f.synonyms) names.emplace_back(theirs);
  const std::string near = nearest(text, names);
  refuse(f, given, "no such value", near.empty() ? "" : cat("did you mean '", near, "'?"));
}

std::vector<std::string> parse_list(const Flag& f, std::span<const std::string> texts) {
  std::vector<std::string> out;
  for (const std::string& text : texts) {
    for (const std::string& part : f.split_commas ? split(text, ',') : std::vector{text}) {
      out.push_back(parse_text(f, part));
    }
  }
  return out;
}

}  // namespace

Value parse_value(const Flag& f, std::span<const std::string> texts) {
  if (f.type == Type::list) return parse_list(f, texts);
  if (texts.size() != 1) {
    fail(Exit::usage, "E_USAGE", cat("--", f.name, ": ", texts.size(), " values given, it takes one"));
  }
  const std::string& given = texts[0];
  const std::string_view text = translated(f, given);
  switch (f.type) {
    case Type::boolean: {
      const auto v = parse_bool(text);
      if (!v) refuse(f, given, "not a truth value");
      return *v;
    }
    case Type::integer: {
      const auto v = parse_integer(text);
      if (!v) refuse(f, given, "not a whole number");
      require_range(f, given, static_cast<double>(*v));
      if (f.normalise && !f.normalise(text)) refuse(f, given, "out of range");
      return *v;
    }
    case Type::number: {
      const auto v = parse_number(text);
      if (!v) refuse(f, given, "not a number");
      require_range(f, given, *v);
      return *v;
    }
    case Type::choice:
      return parse_choice(f, given);
    case Type::text:
      return parse_text(f, given);
    case Type::list:
      break;
  }
  bug("flag type without parser");
}

Value default_value(const Flag& f, Verb verb) {
  const std::string text(f.default_for(verb));
  if (text.empty() && f.type == Type::text) return std::string();
  if (text.empty() && f.type == Type::list) return std::vector<std::string>();
  return parse_value(f, std::array{text});
}

}  // namespace amp::cli
