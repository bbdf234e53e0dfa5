// Escaping of untrusted text for terminals: names (printable() of base/text.h), messages and JSON.
#include "base/terminal_text.h"

#include <algorithm>
#include <cstdio>

#include "base/text.h"
#include "base/utf8.h"

namespace amp {

namespace {

// Control characters of terminals and of text direction: C0, DEL, C1 (U+0080 to U+009F), U+061C, U+200E and U+200F,
// U+202A to U+202E, U+2066 to U+2069, and the line separators U+2028 and U+2029.
bool is_control(uint32_t c) {
  return c < 0x20 || (c >= 0x7f && c <= 0x9f) || c == 0x61c || c == 0x200e || c == 0x200f ||
         (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
}

enum class Escape : uint8_t { name, lines, json };

// Appends the code point at `at` of the text, or the invalid byte there; controls are escaped. Returns its number of
// bytes.
size_t append_escaped(std::string& out, std::string_view text, size_t at, Escape how) {
  const CodePoint c = decode_utf8(text, at);
  const size_t n = c.bytes == 0 ? 1 : static_cast<size_t>(c.bytes);
  const bool line = how != Escape::name && (c.value == '\n' || c.value == '\t');
  if (c.bytes != 0 && (line || !is_control(c.value))) {  // invalid bytes may be C1 controls of a terminal
    out.append(text, at, n);
    return n;
  }
  char buffer[8];
  for (size_t i = at; i < at + (how == Escape::json ? 1 : n); ++i) {
    if (how == Escape::json)
      std::snprintf(buffer, sizeof buffer, "\\u%04x", c.value & 0xffff);
    else
      std::snprintf(buffer, sizeof buffer, "\\x%02x", static_cast<unsigned char>(text[i]));
    out += buffer;
  }
  return n;
}

std::string escaped(std::string_view text, Escape how) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) at += append_escaped(out, text, at, how);
  return out;
}

}  // namespace

std::string printable(std::string_view name) {
  constexpr size_t kMost = 200;
  std::string out;
  size_t at = 0;
  while (at < std::min(name.size(), kMost)) at += append_escaped(out, name, at, Escape::name);
  if (at < name.size()) out += "...";
  return out;
}

std::string printable_lines(std::string_view text) { return escaped(text, Escape::lines); }
std::string printable_json(std::string_view text) { return escaped(text, Escape::json); }

}  // namespace amp
