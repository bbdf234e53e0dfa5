// What the readers of a tokenizer.json's parts share.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace amp {

// What stands for an id is looked up in a table as long as the largest id: four times the longest vocabularies.
constexpr int32_t kMostIds = 4'000'000;
constexpr size_t kMostText = 64u << 20;  // bytes that a text may become on its way; places are 32 bits wide

[[noreturn]] void unknown_part(const std::string& part, const std::string& type);  // E_TOKENIZER
std::string from_base64(std::string_view text);                                    // E_TOKENIZER where it is none
bool is_space(uint32_t code_point);                                                // White_Space

}  // namespace amp
