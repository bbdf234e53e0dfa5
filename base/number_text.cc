#include "base/number_text.h"

#include <array>
#include <charconv>
#include <cmath>

namespace amp {

namespace {
template <class T>
std::optional<T> from_text(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  T v{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), v);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return v;
}
}  // namespace

std::string lower_case(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
  return out;
}

std::optional<bool> parse_bool(std::string_view text) {
  const std::string t = lower_case(text);
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
  // Above 2^53, several integers have the same double, so such a number is refused.
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

}  // namespace amp
