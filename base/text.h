// Small text helpers: globs, nearest name, escaping for terminals.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace amp {

// Shell-style glob over the whole name (fnmatch): * any run, ? one character, [abc] [a-z] [!a] sets. No escapes.
bool glob_match(std::string_view pattern, std::string_view name);

// The candidate with the smallest edit distance, or "" when none is close (more than a third of the name).
std::string nearest(std::string_view name, std::span<const std::string> candidates);

// Names come from files nobody checked: control characters become \xNN, at most 200 bytes are kept.
std::string printable(std::string_view name);

bool one_of(std::string_view word, std::initializer_list<std::string_view> words);
std::string_view trimmed(std::string_view text);  // without blanks and tabs at either end
bool all_digits(std::string_view text);           // and at least one

std::string join(std::span<const std::string> parts, std::string_view separator);
std::vector<std::string> split(std::string_view text, char separator);
std::string with_thousands(int64_t n);  // 17389824 -> "17,389,824"

}  // namespace amp
