#include "base/cat.h"

#include <charconv>

namespace amp::detail {

namespace {
template <class... A>
void append_number(std::string& to, A... number) {
  char text[32];
  to.append(text, std::to_chars(text, text + sizeof text, number...).ptr);
}
}  // namespace

void append_text(std::string& to, std::string_view text) { to += text; }
void append_text(std::string& to, char c) { to += c; }
void append_text(std::string& to, int64_t n) { append_number(to, n); }
void append_text(std::string& to, uint64_t n) { append_number(to, n); }
void append_text(std::string& to, double x) { append_number(to, x, std::chars_format::general, 6); }

}  // namespace amp::detail
