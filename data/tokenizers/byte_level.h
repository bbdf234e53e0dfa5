// Maps bytes to characters, by GPT-2's map of the 256 bytes to printable code points, or by Llama's tokens <0x00> to
// <0xFF>.
#pragma once

#include <array>
#include <string>
#include <string_view>

namespace amp {

extern const std::array<std::string, 256> kByteLevel;  // UTF-8 of each byte's character

// Converts the characters of kByteLevel back to bytes. Returns false if the text has another character.
bool bytes_of_level(std::string_view text, std::string& bytes);
int fallback_byte(std::string_view token);  // returns 0xE2 for "<0xE2>"; -1 for other tokens
std::string fallback_token(unsigned char byte);
// Returns the number of ill-formed bytes from `at` that a decoder replaces by one U+FFFD (Unicode 3.9, maximal
// subparts).
size_t ill_formed_length(std::string_view bytes, size_t at);

}  // namespace amp
