// A matrix whose elements are stored as integers of a few bits, with a scale, and maybe a zero point, for each block:
// element = (integer - zero point) * scale, or table[integer] * scale. The forms of weights in MatMulNBits,
// GatherBlockQuantized, MatMulBnb4 and DequantizeLinear are special cases.
#pragma once

#include <cstdint>

#include "base/dtype.h"

namespace amp {

// Meaning of an integer before it is scaled. fp4, nf4: the 16 values of bitsandbytes' formats.
enum class Codes : int64_t { unsigned_integers, signed_integers, fp4, nf4 };

struct QuantizedMatrix {
  int64_t rows = 0, columns = 0;
  // Element (r, c) has `bits` bits at bit r * row_bits + c * bits of `data`. The lowest bits of a byte come first, or
  // the highest if `high_first`.
  const uint8_t* data = nullptr;
  int64_t bits = 4, row_bits = 0;
  bool high_first = false;
  Codes codes = Codes::unsigned_integers;
  // The scale of element (r, c) has the index r / block_rows * scale_row + c / block_columns * scale_column. If
  // flat_block is not 0, the index is (r * columns + c) / flat_block.
  const void* scales = nullptr;
  DType scale_dtype = DType::f32;
  int64_t block_rows = 1, scale_row = 0, block_columns = 1, scale_column = 0, flat_block = 0;
  // If `zeros` is null, all elements have the zero point `zero`. If zero_bits is 0, `zeros` has a number of zero_dtype
  // for each scale. Otherwise the zero point of block b = c / block_columns has zero_bits bits at bit r * zero_row_bits
  // + b * zero_bits.
  const void* zeros = nullptr;
  DType zero_dtype = DType::u8;
  int64_t zero_bits = 0, zero_row_bits = 0;
  double zero = 0;

  HD int64_t scale_index(int64_t r, int64_t c) const {
    if (flat_block != 0) return (r * columns + c) / flat_block;
    return r / block_rows * scale_row + c / block_columns * scale_column;
  }
};

struct KernelArgs;
// Returns the matrix that a DequantizeMatrix node describes, with the addresses of its inputs.
QuantizedMatrix quantized_matrix(const KernelArgs& a);

// Returns `bits` bits, at most 8, from bit `at` on.
HD inline int64_t packed_bits(const uint8_t* data, int64_t at, int64_t bits, bool high_first) {
  const int64_t first = at / 8, shift = at % 8;
  if (high_first) return (data[first] >> (8 - bits - shift)) & ((1 << bits) - 1);
  const int64_t pair = data[first] | (shift + bits > 8 ? data[first + 1] << 8 : 0);
  return (pair >> shift) & ((1 << bits) - 1);
}

// Returns the integer of element (r, c).
HD inline int64_t quantized_integer(const QuantizedMatrix& m, int64_t r, int64_t c) {
  const int64_t q = packed_bits(m.data, r * m.row_bits + c * m.bits, m.bits, m.high_first);
  const bool negative = m.codes == Codes::signed_integers && q >= int64_t{1} << (m.bits - 1);
  return negative ? q - (int64_t{1} << m.bits) : q;
}

// Returns value q of the format FP4 or NF4.
HD inline float table_value(Codes codes, int64_t q) {
  const float fp4[16] = {0,     5.208333333e-03F,  0.66666667F,  1,  0.33333333F,  0.5F,  0.16666667F,  0.25F,
                         -0.0F, -5.208333333e-03F, -0.66666667F, -1, -0.33333333F, -0.5F, -0.16666667F, -0.25F};
  const float nf4[16] = {-1.0F,
                         -0.6961928009986877F,
                         -0.5250730514526367F,
                         -0.39491748809814453F,
                         -0.28444138169288635F,
                         -0.18477343022823334F,
                         -0.09105003625154495F,
                         0.0F,
                         0.07958029955625534F,
                         0.16093020141124725F,
                         0.24611230194568634F,
                         0.33791524171829224F,
                         0.44070982933044434F,
                         0.5626170039176941F,
                         0.7229568362236023F,
                         1.0F};
  return codes == Codes::fp4 ? fp4[q] : nf4[q];
}

// Returns the zero point of element (r, c), if zero points are packed.
HD inline int64_t packed_zero(const QuantizedMatrix& m, int64_t r, int64_t c) {
  const int64_t at = r * m.zero_row_bits + c / m.block_columns * m.zero_bits;
  return packed_bits(static_cast<const uint8_t*>(m.zeros), at, m.zero_bits, false);
}

HD inline bool by_table(const QuantizedMatrix& m) { return m.codes == Codes::fp4 || m.codes == Codes::nf4; }

// Returns the element of the integer q, computed in T: float or double.
template <class T>
HD T dequantized(const QuantizedMatrix& m, int64_t q, T scale, T zero) {
  if (by_table(m)) return static_cast<T>(table_value(m.codes, q)) * scale;
  return (static_cast<T>(q) - zero) * scale;
}

}  // namespace amp
