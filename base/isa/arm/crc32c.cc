// CRC-32C with the instructions of FEAT_CRC32, if the CPU has it.
#include <arm_acle.h>
#include <asm/hwcap.h>
#include <sys/auxv.h>

#include <cstring>

#include "base/isa/isa.h"

namespace amp::isa {

bool has_crc32c() {
  static const bool has = (getauxval(AT_HWCAP) & HWCAP_CRC32) != 0;
  return has;
}

[[gnu::target("+crc")]] uint32_t crc32c(uint32_t state, const uint8_t* p, int64_t size) {
  for (; size >= 8; size -= 8, p += 8) {
    uint64_t word;
    std::memcpy(&word, p, 8);
    state = __crc32cd(state, word);
  }
  for (; size > 0; --size, ++p) state = __crc32cb(state, *p);
  return state;
}

}  // namespace amp::isa
