#include "tools/cli/values.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "base/error.h"
#include "base/text.h"

namespace amp::cli {
namespace {

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
  return out;
}

template <class T>
std::optional<T> from_text(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  T v{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), v);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return v;
}

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
    if (lower(text) == lower(theirs)) return ours;
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
  const std::string text = lower(translated(f, given));
  for (const std::string_view choice : f.choices) {
    if (lower(choice) == text) return std::string(choice);
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

std::optional<bool> parse_bool(std::string_view text) {
  const std::string t = lower(text);
  if (t == "true" || t == "yes" || t == "on" || t == "1") return true;
  if (t == "false" || t == "no" || t == "off" || t == "0") return false;
  return std::nullopt;
}

std::optional<double> parse_number(std::string_view text) {
  const auto v = from_text<double>(text);
  return v && !std::isnan(*v) ? v : std::nullopt;
}

std::optional<int64_t> parse_integer(std::string_view text) {
  if (const auto v = from_text<int64_t>(text)) return v;
  const auto v = parse_number(text);
  // 2^53: beyond it a double no longer says which integer was meant.
  if (!v || std::abs(*v) > 9007199254740992.0 || *v != std::floor(*v)) return std::nullopt;
  return static_cast<int64_t>(*v);
}

std::string number_text(double v) {
  std::array<char, 32> buffer;
  const bool whole = std::abs(v) < 1e15 && v == std::floor(v);
  const auto end = whole ? std::to_chars(buffer.data(), buffer.data() + buffer.size(), static_cast<int64_t>(v)).ptr
                         : std::to_chars(buffer.data(), buffer.data() + buffer.size(), v).ptr;
  return {buffer.data(), end};
}

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

std::string value_text(const Value& v) {
  if (const auto* b = std::get_if<bool>(&v)) return *b ? "true" : "false";
  if (const auto* i = std::get_if<int64_t>(&v)) return std::to_string(*i);
  if (const auto* d = std::get_if<double>(&v)) return number_text(*d);
  if (const auto* s = std::get_if<std::string>(&v)) return *s;
  return join(std::get<std::vector<std::string>>(v), ", ");
}

}  // namespace amp::cli
