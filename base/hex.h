// Hexadecimal encoding: each byte becomes two lower-case digits.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace amp {

std::string to_hex(std::span<const uint8_t> bytes);
// Decodes `text` to `bytes`. Returns false, without writing, if `text` is not the to_hex() of that many bytes.
bool from_hex(std::string_view text, std::span<uint8_t> bytes);

}  // namespace amp
