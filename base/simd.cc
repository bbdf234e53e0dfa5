#include "base/simd.h"

#include <cstdlib>
#include <string_view>

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
  if (!cap) return best;
  const std::string_view c = cap;
  const Isa limit = c == "v2" ? Isa::v2 : c == "v3" ? Isa::v3 : Isa::v4;
  return limit < best ? limit : best;
}

Isa cpu_isa() {
  static const Isa isa = detect();
  return isa;
}

bool cpu_has_bf16() { return cpu_isa() == Isa::v4 && __builtin_cpu_supports("avx512bf16"); }

}  // namespace amp
