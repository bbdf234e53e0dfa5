// Detects the level (base/simd.h) of the running ARM CPU from the capabilities that Linux reports.
#include <asm/hwcap.h>
#include <sys/auxv.h>

#include <cstdlib>

#include "base/simd.h"

namespace amp {

static Isa detect() {
  const Isa best = (getauxval(AT_HWCAP2) & HWCAP2_BF16) != 0 ? Isa::bf16 : Isa::neon;
  const char* cap = std::getenv("ONNX_AMP_MAX_ISA");
  return cap && isa_from_name(cap) < best ? isa_from_name(cap) : best;
}

Isa cpu_isa() {
  static const Isa isa = detect();
  return isa;
}

Isa isa_from_name(std::string_view name) { return name == "neon" ? Isa::neon : Isa::bf16; }
std::string_view isa_name(Isa isa) { return isa == Isa::bf16 ? "aarch64-bf16" : "aarch64-neon"; }
std::string_view bf16_instruction() { return cpu_isa() == Isa::bf16 ? "BFDOT" : ""; }

}  // namespace amp
