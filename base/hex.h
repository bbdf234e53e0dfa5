// Bytes as text: two lower-case hexadecimal digits each.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace amp {

std::string to_hex(std::span<const uint8_t> bytes);
// Fills `bytes`. False, and nothing is written: `text` is not what to_hex() returns for as many bytes.
bool from_hex(std::string_view text, std::span<uint8_t> bytes);

}  // namespace amp
