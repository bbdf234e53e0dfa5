// Text helpers: globs, nearest name, escaping for terminals.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace amp {

// Returns whether a shell-style glob matches the whole name (fnmatch): * any string, ? one character, [abc] [a-z]
// [!a] sets. There are no escapes.
bool glob_match(std::string_view pattern, std::string_view name);

// Returns the candidate nearest in edit distance; "" if all distances exceed about a third of the name's length.
std::string nearest(std::string_view name, std::span<const std::string> candidates);

// Returns a name from an untrusted file in a form for terminals: control characters (C0, C1, text direction) and
// invalid UTF-8 become \xNN. At most 200 bytes are kept.
std::string printable(std::string_view name);

bool one_of(std::string_view word, std::initializer_list<std::string_view> words);
std::string_view trimmed(std::string_view text);  // returns the text without leading and trailing blanks and tabs
bool all_digits(std::string_view text);           // returns false for an empty text

std::string join(std::span<const std::string> parts, std::string_view separator);
std::vector<std::string> split(std::string_view text, char separator);
std::string with_thousands(int64_t n);  // 17389824 -> "17,389,824"

}  // namespace amp
