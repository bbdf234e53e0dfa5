// data: from files to batches: readers, tokenizer, datasets, sampler, prefetch. It knows neither graphs nor models.
// This file: UTF-8, decoded strictly (no overlong forms, no surrogates, nothing above U+10FFFF).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace amp {

inline constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";  // may begin a file

// A file's text after its byte order mark, where editors on Windows put one.
inline std::string_view without_byte_order_mark(std::string_view text) {
  return text.starts_with(kByteOrderMark) ? text.substr(kByteOrderMark.size()) : text;
}

struct CodePoint {
  uint32_t value = 0;
  int bytes = 0;  // 0: the bytes there are not UTF-8
};

// at must be less than text.size().
CodePoint decode_utf8(std::string_view text, size_t at);
void append_utf8(std::string& out, uint32_t code_point);

int64_t count_code_points(std::string_view text);  // of UTF-8

// Offset of the first byte that is not UTF-8; npos when all is.
size_t find_invalid_utf8(std::string_view text);

// E_DATA_UTF8 (exit 5) with file:line, byte and hex for text that is not UTF-8, holds a NUL, or is UTF-16 or UTF-32.
void check_utf8_file(std::string_view bytes, const std::string& name);

}  // namespace amp
