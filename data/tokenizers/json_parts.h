// What the readers of a tokenizer.json's parts share.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace amp {

[[noreturn]] void unknown_part(const std::string& part, const std::string& type);  // E_TOKENIZER
std::string from_base64(std::string_view text);                                    // E_TOKENIZER where it is none
bool is_space(uint32_t code_point);                                                // White_Space

}  // namespace amp
