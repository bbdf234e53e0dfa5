// Strict decoding and encoding of UTF-8: no overlong forms, no surrogates, nothing above U+10FFFF.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace amp {

inline constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";  // may be the first bytes of a file

// Removes the byte order mark that editors on Windows write.
inline std::string_view without_byte_order_mark(std::string_view text) {
  return text.starts_with(kByteOrderMark) ? text.substr(kByteOrderMark.size()) : text;
}

struct CodePoint {
  uint32_t value = 0;
  int bytes = 0;  // 0 if the bytes are not UTF-8
};

// Decodes the code point at `at`, which must be less than text.size().
CodePoint decode_utf8(std::string_view text, size_t at);
void append_utf8(std::string& out, uint32_t code_point);

int64_t count_code_points(std::string_view text);  // text must be UTF-8

// Returns the offset of the first byte that is not UTF-8, or npos.
size_t find_invalid_utf8(std::string_view text);

bool is_utf16(std::string_view bytes);  // checks the byte order mark

// Throws E_DATA_UTF8 (exit 5) if the text is not valid UTF-8 or has a NUL byte. where: "FILE:LINE".
void require_utf8_text(std::string_view text, const std::string& where);

// Checks the text of a file. Throws E_DATA_UTF8 (exit 5) with file:line, byte and hex if it is not UTF-8, contains NUL,
// or is UTF-16 or UTF-32.
void check_utf8_file(std::string_view bytes, const std::string& name);

}  // namespace amp
