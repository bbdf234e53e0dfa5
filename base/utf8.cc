// Implements utf8.h. find_invalid_utf8 skips ASCII eight bytes at a time, because most texts are mostly ASCII; other
// characters are decoded one by one. Errors name line, column and bytes.
#include "base/utf8.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "base/error.h"

namespace amp {

CodePoint decode_utf8(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) -> uint32_t {
    return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0u;
  };
  const auto tail = [&](size_t i) { return (byte(i) & 0xc0u) == 0x80u; };
  const uint32_t b = byte(0);
  if (b < 0x80) return {b, 1};
  if (b >= 0xc2 && b < 0xe0 && tail(1)) return {(b & 0x1fu) << 6 | (byte(1) & 0x3fu), 2};
  if (b >= 0xe0 && b < 0xf0 && tail(1) && tail(2)) {
    const uint32_t c = (b & 0x0fu) << 12 | (byte(1) & 0x3fu) << 6 | (byte(2) & 0x3fu);
    if (c >= 0x800 && (c < 0xd800 || c > 0xdfff)) return {c, 3};
  }
  if (b >= 0xf0 && b < 0xf5 && tail(1) && tail(2) && tail(3)) {
    const uint32_t c = (b & 0x07u) << 18 | (byte(1) & 0x3fu) << 12 | (byte(2) & 0x3fu) << 6 | (byte(3) & 0x3fu);
    if (c >= 0x10000 && c <= 0x10ffff) return {c, 4};
  }
  return {0, 0};
}

void append_utf8(std::string& out, uint32_t c) {
  const auto put = [&](uint32_t b) { out += static_cast<char>(b); };
  if (c < 0x80) return put(c);
  if (c < 0x800) {
    put(0xc0 | c >> 6);
  } else {
    if (c < 0x10000) {
      put(0xe0 | c >> 12);
    } else {
      put(0xf0 | c >> 18);
      put(0x80 | (c >> 12 & 0x3f));
    }
    put(0x80 | (c >> 6 & 0x3f));
  }
  put(0x80 | (c & 0x3f));
}

int64_t count_code_points(std::string_view text) {
  return std::count_if(text.begin(), text.end(),
                       [](char c) { return (static_cast<unsigned char>(c) & 0xc0u) != 0x80u; });
}

size_t find_invalid_utf8(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    uint64_t eight;
    while (at + 8 <= text.size() && (std::memcpy(&eight, text.data() + at, 8), (eight & 0x8080808080808080u) == 0))
      at += 8;
    if (at == text.size()) break;
    const int n = decode_utf8(text, at).bytes;
    if (n == 0) return at;
    at += static_cast<size_t>(n);
  }
  return std::string_view::npos;
}

bool is_utf16(std::string_view bytes) { return bytes.starts_with("\xff\xfe") || bytes.starts_with("\xfe\xff"); }

void require_utf8_text(std::string_view text, const std::string& where) {
  if (find_invalid_utf8(text) == std::string_view::npos && text.find('\0') == std::string_view::npos) return;
  fail(Exit::data, "E_DATA_UTF8", cat(where, ": not UTF-8, or a NUL byte"), "convert the file to UTF-8");
}

void check_utf8_file(std::string_view bytes, const std::string& name) {
  if (is_utf16(bytes)) {
    fail(Exit::data, "E_DATA_UTF8", cat(name, ":1: the file is UTF-16 (or UTF-32), UTF-8 is needed"),
         "convert it, for instance with: iconv -f UTF-16 -t UTF-8");
  }
  const size_t bad = std::min(find_invalid_utf8(bytes), bytes.find('\0'));
  if (bad == std::string_view::npos) return;
  const auto line = std::count(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(bad), '\n') + 1;
  const size_t line_start = bytes.substr(0, bad).rfind('\n') + 1;  // rfind() + 1 is 0 if there is no line end
  std::string hex;
  for (const char c : bytes.substr(bad, 4)) {
    char buffer[4];
    std::snprintf(buffer, sizeof buffer, " %02x", static_cast<unsigned char>(c));
    hex += buffer;
  }
  fail(Exit::data, "E_DATA_UTF8",
       cat(name, ":", line, ":", bad - line_start + 1, ": ", bytes[bad] == '\0' ? "a NUL byte" : "not UTF-8", ": bytes",
           hex, " at offset ", bad),
       bytes[bad] == '\0' ? "remove the NUL bytes; a file in UTF-16 is converted by: iconv -f UTF-16LE -t UTF-8"
                          : "convert the file to UTF-8, for instance with: iconv -f WINDOWS-1252 -t UTF-8");
}

}  // namespace amp
