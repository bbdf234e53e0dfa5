// Dequantization in two passes over a strip of a row, which stays in the first-level cache. The first pass unpacks the
// integers to bytes, the second converts them to fp32, subtracts the zero point and multiplies by the scale of each
// block. Integers of 4 and 8 bits, blocks of at least 16 columns and fp32 scales have vectorized loops.
#include "backend/cpu/gemm/dequantize.h"

#include <algorithm>
#include <cstring>

#include "backend/cpu/gemm/quantized_parts.h"
#include "base/simd.h"

namespace amp::cpu {
namespace {

constexpr int64_t kStrip = 512;  // columns that are unpacked at a time

// Unpacks the integers of columns [c, c + n) of row r to bytes: signed integers as int8. Returns the address of the
// bytes.
AMP_INLINE inline const uint8_t* integers(const QuantizedMatrix& m, int64_t r, int64_t c, int64_t n, uint8_t* to) {
  const int64_t at = r * m.row_bits + c * m.bits;
  if (m.bits == 8) return m.data + at / 8;
  if (m.bits == 4 && at % 8 == 0) {
    const uint8_t* const from = m.data + at / 8;
    const int64_t pairs = n / 2;
    for (int64_t i = 0; i < pairs; ++i) {
      const uint16_t b = from[i];
      const auto two = static_cast<uint16_t>(m.high_first ? (b >> 4) | ((b & 15) << 8) : (b | (b << 4)) & 0x0f0f);
      std::memcpy(to + 2 * i, &two, 2);
    }
    if (n % 2) to[n - 1] = static_cast<uint8_t>(packed_bits(from, (n - 1) * 4, 4, m.high_first));
  } else {
    for (int64_t i = 0; i < n; ++i)
      to[i] = static_cast<uint8_t>(packed_bits(m.data, at + i * m.bits, m.bits, m.high_first));
  }
  if (m.codes == Codes::signed_integers) {
    const int shift = static_cast<int>(8 - m.bits);
    for (int64_t i = 0; i < n; ++i)
      to[i] = static_cast<uint8_t>(static_cast<int8_t>(static_cast<uint8_t>(to[i] << shift)) >> shift);
  }
  return to;
}

template <class Integer>
AMP_INLINE inline void scaled(const uint8_t* from, int64_t n, float zero, float scale, float* to) {
  const auto* const q = reinterpret_cast<const Integer*>(from);
  if (n == 32) {  // the most common block size, for which the loop needs no tests
    for (int64_t i = 0; i < 32; ++i) to[i] = (static_cast<float>(q[i]) - zero) * scale;
    return;
  }
  for (int64_t i = 0; i < n; ++i) to[i] = (static_cast<float>(q[i]) - zero) * scale;
}

// Dequantizes n columns of row r, from column c on, each of which has its own scale.
template <class Integer>
AMP_INLINE inline void scaled_each(const QuantizedMatrix& m, const uint8_t* from, int64_t r, int64_t c, int64_t n,
                                   float* to) {
  const auto* const q = reinterpret_cast<const Integer*>(from);
  float scales[kStrip], zeros[kStrip];
  const int64_t first = m.scale_index(r, c);
  if (m.scale_dtype == DType::f32 && m.scale_column == 1) {
    std::memcpy(scales, static_cast<const float*>(m.scales) + first, static_cast<size_t>(n) * sizeof(float));
  } else {
    for (int64_t i = 0; i < n; ++i) scales[i] = scale_at(m, first + i * m.scale_column);
  }
  if (m.zeros && m.zero_bits == 0 && m.zero_dtype == DType::u8) {
    const auto* const z = static_cast<const uint8_t*>(m.zeros) + first;
    for (int64_t i = 0; i < n; ++i) zeros[i] = static_cast<float>(z[i * m.scale_column]);
  } else if (m.zeros && m.zero_bits == 0 && m.zero_dtype == DType::i8) {
    const auto* const z = static_cast<const int8_t*>(m.zeros) + first;
    for (int64_t i = 0; i < n; ++i) zeros[i] = static_cast<float>(z[i * m.scale_column]);
  } else {
    for (int64_t i = 0; i < n; ++i) zeros[i] = zero_at(m, first + i * m.scale_column, r, c + i);
  }
  for (int64_t i = 0; i < n; ++i) to[i] = (static_cast<float>(q[i]) - zeros[i]) * scales[i];
}

// Returns the end of the columns from c on, at most `end`, that have the same scale as (r, c).
int64_t same_scale(const QuantizedMatrix& m, int64_t r, int64_t c, int64_t end) {
  if (m.flat_block != 0) return std::min(end, c + m.flat_block - (r * m.columns + c) % m.flat_block);
  if (m.scale_column == 0) return end;
  return std::min(end, (c / m.block_columns + 1) * m.block_columns);
}

// Dequantizes columns [c, end) of row r, at most kStrip, to fp32. `table` has the values of FP4 or NF4, or is null.
AMP_INLINE inline void strip(const QuantizedMatrix& m, int64_t r, int64_t c, int64_t end, const float* table,
                             float* to) {
  uint8_t unpacked[kStrip];
  const uint8_t* const q = integers(m, r, c, end - c, unpacked);
  if (m.block_columns == 1 && m.flat_block == 0 && m.scale_column != 0 && !table) {
    if (m.codes == Codes::signed_integers) return scaled_each<int8_t>(m, q, r, c, end - c, to);
    return scaled_each<uint8_t>(m, q, r, c, end - c, to);
  }
  for (int64_t at = c; at < end;) {
    const int64_t stop = same_scale(m, r, at, end), n = stop - at, i = m.scale_index(r, at);
    const float scale = scale_at(m, i);
    if (table) {
      for (int64_t k = 0; k < n; ++k) to[at - c + k] = table[q[at - c + k]] * scale;
    } else if (m.codes == Codes::signed_integers) {
      scaled<int8_t>(q + (at - c), n, zero_at(m, i, r, at), scale, to + (at - c));
    } else {
      scaled<uint8_t>(q + (at - c), n, zero_at(m, i, r, at), scale, to + (at - c));
    }
    at = stop;
  }
}

}  // namespace

void dequantize(const QuantizedMatrix& m, int64_t r0, int64_t rows, int64_t c0, int64_t columns, DType dtype,
                void* to) {
  float values[16];
  for (int64_t q = 0; by_table(m) && q < 16; ++q) values[q] = table_value(m.codes, q);
  const float* const table = by_table(m) ? values : nullptr;
  simd([&]() AMP_INLINE {
    alignas(64) float part[kStrip];
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < columns; c += kStrip) {
        const int64_t n = std::min(kStrip, columns - c), at = r * columns + c;
        float* const out = dtype == DType::f32 ? static_cast<float*>(to) + at : part;
        strip(m, r0 + r, c0 + c, c0 + c + n, table, out);
        if (dtype != DType::f32) convert(DType::f32, part, dtype, static_cast<char*>(to) + at * size_of(dtype), n);
      }
    }
  });
}

}  // namespace amp::cpu
