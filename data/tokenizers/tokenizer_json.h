// Helpers for reading the parts of a tokenizer.json.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace amp {

// Ids are below this limit, because tables have an entry for every id up to the largest. It is four times the size of
// the largest vocabularies.
constexpr int32_t kMostIds = 4'000'000;
constexpr size_t kMostText = 64u << 20;  // limit of a text's bytes while processed; offsets have 32 bits

[[noreturn]] void unknown_part(const std::string& part, const std::string& type);  // throws E_TOKENIZER
std::string from_base64(std::string_view text);  // throws E_TOKENIZER for invalid text
bool is_space(uint32_t code_point);              // true if Unicode's property White_Space is set

}  // namespace amp
