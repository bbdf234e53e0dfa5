// Helpers for reading the parts of a tokenizer.json.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace amp {

// Limit of ids. Tables have an entry per id up to the largest; the limit is four times the longest vocabularies.
constexpr int32_t kMostIds = 4'000'000;
constexpr size_t kMostText = 64u << 20;  // limit of a text's bytes while processed; offsets have 32 bits

[[noreturn]] void unknown_part(const std::string& part, const std::string& type);  // E_TOKENIZER
std::string from_base64(std::string_view text);  // throws E_TOKENIZER for invalid text
bool is_space(uint32_t code_point);              // White_Space

}  // namespace amp
