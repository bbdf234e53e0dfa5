// Scales and zero points of a quantized matrix as fp32, for the files that dequantize.
#pragma once

#include "backend/quantized_matrix.h"

namespace amp::cpu {

inline float number_at(const void* data, DType t, int64_t i) {
  switch (t) {
    case DType::f32:
      return static_cast<const float*>(data)[i];
    case DType::u8:
      return static_cast<const uint8_t*>(data)[i];
    case DType::i8:
      return static_cast<const int8_t*>(data)[i];
    default: {
      float out = 0;
      convert(t, static_cast<const char*>(data) + i * size_of(t), DType::f32, &out, 1);
      return out;
    }
  }
}

// Returns the scale with index i.
inline float scale_at(const QuantizedMatrix& m, int64_t i) { return number_at(m.scales, m.scale_dtype, i); }

// Returns the zero point of the block with scale i, which contains element (r, c).
inline float zero_at(const QuantizedMatrix& m, int64_t i, int64_t r, int64_t c) {
  if (!m.zeros) return static_cast<float>(m.zero);
  if (m.zero_bits == 0) return number_at(m.zeros, m.zero_dtype, i);
  return static_cast<float>(packed_zero(m, r, c));
}

}  // namespace amp::cpu
