#include "data/tokenizers/byte_level.h"

#include <cstdio>
#include <unordered_map>

#include "base/utf8.h"

namespace amp {

namespace {

// Returns GPT-2's map. Printable Latin-1 bytes map to themselves, all others to U+0100, U+0101, ... in order.
std::array<std::string, 256> make_map() {
  std::array<std::string, 256> map;
  uint32_t next = 256;
  for (uint32_t b = 0; b < 256; ++b) {
    const bool prints = (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
    append_utf8(map[b], prints ? b : next++);
  }
  return map;
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

}  // namespace

const std::array<std::string, 256> kByteLevel = make_map();

bool bytes_of_level(std::string_view text, std::string& bytes) {
  static const std::unordered_map<uint32_t, char> back = [] {
    std::unordered_map<uint32_t, char> m;
    for (size_t b = 0; b < 256; ++b) m[decode_utf8(kByteLevel[b], 0).value] = static_cast<char>(b);
    return m;
  }();
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = decode_utf8(text, at);
    const auto byte = back.find(c.value);
    if (c.bytes == 0 || byte == back.end()) return false;
    bytes += byte->second;
    at += static_cast<size_t>(c.bytes);
  }
  return true;
}

int fallback_byte(std::string_view t) {
  if (t.size() != 6 || !t.starts_with("<0x") || t[5] != '>') return -1;
  const int high = hex_digit(t[3]), low = hex_digit(t[4]);
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

std::string fallback_token(unsigned char byte) {
  char text[8];
  std::snprintf(text, sizeof text, "<0x%02X>", byte);
  return text;
}

size_t ill_formed_length(std::string_view bytes, size_t at) {
  const auto byte = [&](size_t i) { return at + i < bytes.size() ? static_cast<unsigned char>(bytes[at + i]) : 0u; };
  const unsigned b = byte(0), second = byte(1);
  const unsigned from = b == 0xe0 ? 0xa0 : b == 0xf0 ? 0x90 : 0x80, to = b == 0xed ? 0x9f : b == 0xf4 ? 0x8f : 0xbf;
  const size_t length = b >= 0xf0 && b < 0xf5 ? 4 : b >= 0xe0 && b < 0xf0 ? 3 : b >= 0xc2 && b < 0xe0 ? 2 : 1;
  if (length < 3 || second < from || second > to) return 1;
  return length == 4 && (byte(2) & 0xc0u) == 0x80u ? 3 : 2;
}

}  // namespace amp
