// CRC-32C with the instruction of SSE4.2.
#include <nmmintrin.h>

#include <cstring>

#include "base/isa/isa.h"

namespace amp::isa {

bool has_crc32c() {
  static const bool has = __builtin_cpu_supports("sse4.2");
  return has;
}

[[gnu::target("sse4.2")]] uint32_t crc32c(uint32_t state, const uint8_t* p, int64_t size) {
  uint64_t x = state;
  for (; size >= 8; size -= 8, p += 8) {
    uint64_t word;
    std::memcpy(&word, p, 8);
    x = _mm_crc32_u64(x, word);
  }
  state = static_cast<uint32_t>(x);
  for (; size > 0; --size, ++p) state = _mm_crc32_u8(state, *p);
  return state;
}

}  // namespace amp::isa
