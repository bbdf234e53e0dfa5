// Detects the level (base/simd.h) of the running x86-64 CPU.
#include <cstdlib>

#include "base/isa/x86/amx.h"
#include "base/simd.h"

namespace amp {

static Isa detect() {
  __builtin_cpu_init();
  Isa best = Isa::v2;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) best = Isa::v3;  // all such CPUs have F16C too
  if (best == Isa::v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
    best = Isa::v4;
  }
  const char* cap = std::getenv("ONNX_AMP_MAX_ISA");
  return cap && isa_from_name(cap) < best ? isa_from_name(cap) : best;
}

Isa cpu_isa() {
  static const Isa isa = detect();
  return isa;
}

Isa isa_from_name(std::string_view name) { return name == "v2" ? Isa::v2 : name == "v3" ? Isa::v3 : Isa::v4; }

std::string_view isa_name(Isa isa) { return isa == Isa::v4 ? "x86-64-v4" : isa == Isa::v3 ? "x86-64-v3" : "x86-64-v2"; }

std::string_view bf16_instruction() { return cpu_has_amx() ? "amx_bf16" : cpu_has_avx512_bf16() ? "avx512_bf16" : ""; }

}  // namespace amp
