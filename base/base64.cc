#include "base/base64.h"

#include <cstdint>

namespace amp {

std::string to_base64(std::string_view bytes) {
  static const char* const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (size_t at = 0; at < bytes.size(); at += 3) {
    uint32_t v = 0;
    for (size_t i = 0; i < 3; ++i)
      v = v << 8 | (at + i < bytes.size() ? static_cast<unsigned char>(bytes[at + i]) : 0u);
    for (size_t i = 0; i < 4; ++i) out += at + i > bytes.size() ? '=' : digits[v >> (18 - 6 * i) & 63u];
  }
  return out;
}

}  // namespace amp
