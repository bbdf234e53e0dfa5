// The wire format of Protocol Buffers, for messages of which only a few fields are read or written: SentencePiece
// models, TensorBoard events. A field is (number << 3 | wire type), followed by its value.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace amp {

enum class Wire : uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

// Calls f(field, number, bytes) for each field in order; the value of a fixed-width field is passed as bytes. Returns
// false if the message is truncated or malformed.
template <class F>
bool each_field(std::string_view bytes, F&& f) {
  size_t at = 0;
  const auto varint = [&](uint64_t& v) {
    v = 0;
    for (int shift = 0; shift < 64 && at < bytes.size(); shift += 7) {
      const auto b = static_cast<unsigned char>(bytes[at++]);
      v |= static_cast<uint64_t>(b & 0x7fu) << shift;
      if (b < 0x80) return true;
    }
    return false;
  };
  while (at < bytes.size()) {
    uint64_t tag = 0, n = 0;
    if (!varint(tag)) return false;
    const uint64_t wire = tag & 7u;
    if (wire == 0) {
      if (!varint(n)) return false;
      f(tag >> 3, n, std::string_view());
      continue;
    }
    if (wire == 1 || wire == 5)
      n = wire == 1 ? 8 : 4;
    else if (wire != 2 || !varint(n))
      return false;
    if (n > bytes.size() - at) return false;
    f(tag >> 3, uint64_t{0}, bytes.substr(at, n));
    at += n;
  }
  return true;
}

inline void put_varint(std::string& to, uint64_t v) {
  for (; v >= 0x80; v >>= 7) to += static_cast<char>(v | 0x80);
  to += static_cast<char>(v);
}

inline void put_key(std::string& to, unsigned field, Wire wire) {
  put_varint(to, field << 3 | static_cast<unsigned>(wire));
}

template <class T>
void put_fixed(std::string& to, T v) {
  static_assert(std::endian::native == std::endian::little);
  char raw[sizeof v];
  std::memcpy(raw, &v, sizeof v);
  to.append(raw, sizeof v);
}

inline void put_bytes(std::string& to, unsigned field, std::string_view value) {
  put_key(to, field, Wire::bytes);
  put_varint(to, value.size());
  to += value;
}

}  // namespace amp
