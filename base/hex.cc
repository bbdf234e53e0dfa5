#include "base/hex.h"

namespace amp {

static constexpr std::string_view kDigits = "0123456789abcdef";

std::string to_hex(std::span<const uint8_t> bytes) {
  std::string out;
  for (const uint8_t b : bytes) {
    out += kDigits[b >> 4];
    out += kDigits[b & 15];
  }
  return out;
}

bool from_hex(std::string_view text, std::span<uint8_t> bytes) {
  if (text.size() != 2 * bytes.size() || text.find_first_not_of(kDigits) != std::string_view::npos) return false;
  for (size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<uint8_t>(kDigits.find(text[2 * i]) << 4 | kDigits.find(text[2 * i + 1]));
  return true;
}

}  // namespace amp
