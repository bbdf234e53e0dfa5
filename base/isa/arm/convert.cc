// Conversions of fp16 with FCVTL and FCVTN, which every 64-bit ARM CPU has. They round to nearest even and make NaN
// quiet, like F16C. Loops over bf16 compile to shifts and narrowing moves of NEON.
#include <arm_neon.h>

#include "base/isa/isa.h"

namespace amp::isa {

int64_t to_float(const Half* src, float* dst, int64_t n) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const float16x8_t x = vreinterpretq_f16_u16(vld1q_u16(reinterpret_cast<const uint16_t*>(src + i)));
    vst1q_f32(dst + i, vcvt_f32_f16(vget_low_f16(x)));
    vst1q_f32(dst + i + 4, vcvt_high_f32_f16(x));
  }
  return i;
}

int64_t from_float(const float* src, Half* dst, int64_t n) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const float16x8_t x = vcvt_high_f16_f32(vcvt_f16_f32(vld1q_f32(src + i)), vld1q_f32(src + i + 4));
    vst1q_u16(reinterpret_cast<uint16_t*>(dst + i), vreinterpretq_u16_f16(x));
  }
  return i;
}

int64_t from_float(const float*, BFloat16*, int64_t) { return 0; }

}  // namespace amp::isa
