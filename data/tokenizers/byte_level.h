// Bytes as characters: GPT-2's map of the 256 bytes to printable code points, and Llama's tokens <0x00> to <0xFF>.
#pragma once

#include <array>
#include <string>
#include <string_view>

namespace amp {

extern const std::array<std::string, 256> kByteLevel;  // UTF-8 of the character of each byte

// The bytes that a text of such characters stands for; false: one of them is none.
bool bytes_of_level(std::string_view text, std::string& bytes);
int fallback_byte(std::string_view token);  // of "<0xE2>"; -1: another token
std::string fallback_token(unsigned char byte);
// How many bytes from `at` on, which are not UTF-8, a decoder replaces by one U+FFFD (Unicode 3.9, maximal subparts).
size_t ill_formed_length(std::string_view bytes, size_t at);

}  // namespace amp
