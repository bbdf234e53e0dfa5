// Detects AVX512_BF16 and AMX.
#include "base/isa/x86/amx.h"

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>

#include "base/simd.h"

namespace amp {

bool cpu_has_avx512_bf16() { return cpu_isa() == Isa::v4 && __builtin_cpu_supports("avx512bf16"); }

static bool detect() {
  if (!cpu_has_avx512_bf16() || std::getenv("ONNX_AMP_MAX_ISA")) return false;
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned kTiles = 1U << 24, kBf16 = 1U << 22;  // bits of EDX in CPUID leaf 7
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d & kTiles) == 0 || (d & kBf16) == 0) return false;
  // Since Linux 5.16 a process must ask for permission before it uses AMX, whose tile registers need 8 KB.
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

bool cpu_has_amx() {
  static const bool has = detect();
  return has;
}

}  // namespace amp
