// String concatenation. Each argument type is reduced to a few overloads that are compiled once, which keeps code
// small.
#pragma once

#include <cstdint>
#include <sstream>
#include <string>
#include <string_view>
#include <type_traits>

namespace amp {

namespace detail {
// Append a value to a text. Numbers are formatted as by operator<<.
void append_text(std::string& to, std::string_view text);
void append_text(std::string& to, char c);
void append_text(std::string& to, int64_t n);
void append_text(std::string& to, uint64_t n);
void append_text(std::string& to, double x);
template <class A>
void append_any(std::string& to, const A& a) {
  if constexpr (std::is_convertible_v<const A&, std::string_view>) {
    append_text(to, std::string_view(a));
  } else if constexpr (std::is_same_v<A, char>) {
    append_text(to, a);
  } else if constexpr (std::is_floating_point_v<A>) {
    append_text(to, static_cast<double>(a));
  } else if constexpr (std::is_integral_v<A> && (sizeof(A) > 1 || std::is_same_v<A, bool>)) {
    append_text(to, static_cast<std::conditional_t<std::is_signed_v<A>, int64_t, uint64_t>>(a));
  } else {
    std::ostringstream s;
    s << a;
    append_text(to, s.view());
  }
}

}  // namespace detail

// Concatenates its arguments, formatted as by operator<<: cat("found ", n, " rows").
template <class... A>
std::string cat(const A&... a) {
  std::string s;
  (detail::append_any(s, a), ...);
  return s;
}

}  // namespace amp
