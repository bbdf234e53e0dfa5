// Integers of 4 and 8 bits in blocks of 16 columns or more are dequantized in registers and written to the panels
// directly. A product with few rows reads each element once, so its time is that of dequantizing. If the matrix is
// stored along the depth, squares of 16 lanes by 16 bytes are transposed while they are bytes, an eighth of their size
// in fp32. Other forms, and parts that are not whole squares, are dequantized to a buffer and packed from there.
#include "backend/cpu/gemm/pack_quantized.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "backend/cpu/gemm/bf16_pairs.h"
#include "backend/cpu/gemm/dequantize.h"
#include "backend/cpu/gemm/quantized_parts.h"
#include "base/simd.h"

namespace amp::cpu {
namespace {

constexpr int64_t kSquare = 16;  // lanes, and bytes of a lane, that are handled together

typedef uint8_t Bytes16 __attribute__((vector_size(16)));
typedef uint8_t Bytes16At __attribute__((vector_size(16), aligned(1)));  // unaligned, for memory

template <int... J>
AMP_INLINE inline void unpack(const Bytes16& a, const Bytes16& b, Bytes16& low, Bytes16& high,
                              std::integer_sequence<int, J...>) {
#ifdef __clang__
  low = __builtin_shufflevector(a, b, (J / 2 + J % 2 * 16)...);
  high = __builtin_shufflevector(a, b, (8 + J / 2 + J % 2 * 16)...);
#else
  low = __builtin_shuffle(a, b, Bytes16{(J / 2 + J % 2 * 16)...});
  high = __builtin_shuffle(a, b, Bytes16{(8 + J / 2 + J % 2 * 16)...});
#endif
}

// to[byte][lane] = from[lane * stride + byte], by four perfect shuffles of 16 rows.
AMP_INLINE inline void transpose_bytes(const uint8_t* from, int64_t stride, uint8_t (&to)[kSquare][kSquare]) {
  Bytes16 a[kSquare], b[kSquare];
  for (int64_t i = 0; i < kSquare; ++i) a[i] = *reinterpret_cast<const Bytes16At*>(from + i * stride);
  constexpr auto all = std::make_integer_sequence<int, 16>();
  for (int round = 0; round < 2; ++round) {
    for (int64_t i = 0; i < 8; ++i) unpack(a[i], a[i + 8], b[2 * i], b[2 * i + 1], all);
    for (int64_t i = 0; i < 8; ++i) unpack(b[i], b[i + 8], a[2 * i], a[2 * i + 1], all);
  }
  for (int64_t i = 0; i < kSquare; ++i) std::memcpy(to[i], &a[i], kSquare);
}

template <int Lanes>
struct Vectors {
  typedef uint8_t bytes __attribute__((vector_size(Lanes), aligned(1)));
  typedef int8_t signed_bytes __attribute__((vector_size(Lanes), aligned(1)));
  typedef int16_t shorts __attribute__((vector_size(Lanes * 2)));
  typedef int32_t ints __attribute__((vector_size(Lanes * 4)));
  using floats = typename VectorOf<Lanes>::type;
};

// Sets `to` to Lanes bytes as integers, in two steps that g++ 12 compiles to one instruction each.
template <int Lanes>
AMP_INLINE inline void widen(const uint8_t* from, typename Vectors<Lanes>::ints& to) {
  using V = Vectors<Lanes>;
  to = __builtin_convertvector(
      __builtin_convertvector(*reinterpret_cast<const typename V::bytes*>(from), typename V::shorts), typename V::ints);
}
template <int Lanes>
AMP_INLINE inline void widen_signed(const uint8_t* from, typename Vectors<Lanes>::ints& to) {
  using V = Vectors<Lanes>;
  to = __builtin_convertvector(
      __builtin_convertvector(*reinterpret_cast<const typename V::signed_bytes*>(from), typename V::shorts),
      typename V::ints);
}

// Conversion of an integer to a number: by a table (FP4, NF4), or by subtracting a zero point.
enum class Kind { table, unsigned_integers, signed_integers };

// Sets `to` to the numbers of Lanes integers, before scaling.
template <int Lanes, Kind kind>
AMP_INLINE inline void number(const typename Vectors<Lanes>::ints& q, const float* table,
                              const typename VectorOf<Lanes>::type& zero, typename VectorOf<Lanes>::type& to) {
  using F = typename VectorOf<Lanes>::type;
  if constexpr (kind == Kind::table) {
#ifndef __clang__
    if constexpr (Lanes == 16) {
      to = __builtin_shuffle(*reinterpret_cast<const F*>(table), q);
      return;
    }
    if constexpr (Lanes == 8) {
      to = __builtin_shuffle(*reinterpret_cast<const F*>(table), *reinterpret_cast<const F*>(table + 8), q);
      return;
    }
#endif
    for (int i = 0; i < Lanes; ++i) to[i] = table[q[i]];
  } else {
    to = __builtin_convertvector(q, F) - zero;
  }
}

// Writes the panels of one matrix. pairs: elements are rounded to bf16 and written in pairs along the depth.
template <int Lanes, Kind kind, bool pairs>
class Writer {
 public:
  using V = Vectors<Lanes>;
  using F = typename V::floats;
  using I = typename V::ints;

  Writer(const QuantizedMatrix& m, int64_t width)
      : m_(by_rows(m)), width_(width), same_zero_(static_cast<float>(m.zero)) {
    for (int64_t q = 0; kind == Kind::table && q < 16; ++q) table_[q] = table_value(m.codes, q);
    std::fill_n(zero_, kSquare, same_zero_);
  }

  // Packs columns [p0, p0 + depth) of rows [r0, r0 + width_) as a panel. Its lanes are rows of the matrix.
  AMP_INLINE void across(int64_t r0, int64_t p0, int64_t depth, float* panel) {
    const int64_t per_byte = 8 / m_.bits, deep = kSquare * per_byte;
    for (int64_t g = 0; g < width_; g += kSquare) {
      const uint8_t* from = m_.data + ((r0 + g) * m_.row_bits + p0 * m_.bits) / 8;
      int64_t block = -1;  // the block whose scales are loaded
      for (int64_t p = 0; p < depth; p += deep, from += kSquare) {
        transpose_bytes(from, m_.row_bits / 8, bytes_);
        float* const to = panel + (pairs ? p / 2 * width_ : p * width_) + g;
        // A pass handles 16 steps, in which each lane has one scale.
        for (int64_t b = 0; b < kSquare; b += kSquare / per_byte) {
          if (const int64_t next = (p0 + p + b * per_byte) / m_.block_columns; next != block) {
            block = next;
            load_scales(r0 + g, block);
          }
          for (int64_t k = b; k < b + kSquare / per_byte; ++k) {
            if (per_byte == 2)
              nibbles(k, to);
            else
              whole_bytes(k, to);
          }
        }
      }
    }
  }

  // Packs rows [r0, r0 + depth) of columns [c0, c0 + lanes) as panels whose lanes are columns of the matrix. The loop
  // processes one row after the other, because the columns of a row are in the same cache lines. lanes: a multiple of
  // `width_`. panel: number of floats of a panel.
  AMP_INLINE void along(int64_t r0, int64_t depth, int64_t c0, int64_t lanes, int64_t panel, float* panels) {
    constexpr int64_t kGroups = 16, kAhead = 16, kLine = 64;
    int64_t block[kGroups];
    float* to[kGroups];
    for (int64_t l = 0; l < lanes; l += kGroups * kSquare) {
      const int64_t groups = std::min(kGroups, (lanes - l) / kSquare);
      for (int64_t g = 0; g < groups; ++g) {
        const int64_t lane = l + g * kSquare;
        block[g] = (c0 + lane) / m_.block_columns;
        to[g] = panels + lane / width_ * panel + lane % width_;
      }
      for (int64_t p = 0; p < depth; p += pairs ? 2 : 1) {
        // prefetches, because the hardware prefetcher finds no pattern in rows that are far apart.
        for (int64_t s = 0; s < (pairs ? 2 : 1); ++s) {
          const int64_t row = r0 + std::min(p + s + kAhead, depth - 1);
          for (int64_t b = 0; b < groups * kSquare * m_.bits / 8; b += kLine)
            __builtin_prefetch(m_.data + (row * m_.row_bits + (c0 + l) * m_.bits) / 8 + b);
        }
        for (int64_t g = 0; g < groups; ++g) {
          const int64_t c = c0 + l + g * kSquare;
          if constexpr (pairs) {
            alignas(64) float low[kSquare], high[kSquare] = {};
            row_part(r0 + p, c, block[g], low);
            if (p + 1 < depth) row_part(r0 + p + 1, c, block[g], high);
            for (int64_t j = 0; j < kSquare; j += Lanes)
              store_pair(*reinterpret_cast<const F*>(low + j), *reinterpret_cast<const F*>(high + j), to[g] + j);
          } else {
            row_part(r0 + p, c, block[g], to[g]);
          }
          to[g] += width_;
        }
      }
    }
  }

 private:
  // Returns the same matrix without flat_block: scales by row and block of columns. Requires whole_blocks().
  static QuantizedMatrix by_rows(QuantizedMatrix m) {
    if (m.flat_block != 0) {
      m.block_columns = m.flat_block;
      m.scale_row = m.columns / m.flat_block, m.scale_column = 1;
      m.flat_block = 0;
    }
    if (m.scale_column == 0) m.block_columns = std::max<int64_t>(1, m.columns);
    return m;
  }
  AMP_INLINE int64_t scale_of(int64_t r, int64_t block) const {
    return (m_.block_rows == 1 ? r : r / m_.block_rows) * m_.scale_row + block * m_.scale_column;
  }
  AMP_INLINE float zero_of(int64_t r, int64_t block, int64_t scale) const {
    if (kind == Kind::table || !m_.zeros) return same_zero_;
    if (m_.zero_bits == 0) return number_at(m_.zeros, m_.zero_dtype, scale);
    const int64_t at = r * m_.zero_row_bits + block * m_.zero_bits;
    return static_cast<float>(packed_bits(static_cast<const uint8_t*>(m_.zeros), at, m_.zero_bits, false));
  }
  // Loads the scales and zero points of a block of columns in 16 rows from r on.
  AMP_INLINE void load_scales(int64_t r, int64_t block) {
    if (m_.scale_dtype == DType::f32 && m_.block_rows == 1) {
      const float* const from = static_cast<const float*>(m_.scales) + scale_of(r, block);
      for (int64_t i = 0; i < kSquare; ++i) scale_[i] = from[i * m_.scale_row];
    } else {
      for (int64_t i = 0; i < kSquare; ++i) scale_[i] = scale_at(m_, scale_of(r + i, block));
    }
    for (int64_t i = 0; m_.zeros && i < kSquare; ++i) zero_[i] = zero_of(r + i, block, scale_of(r + i, block));
  }
  // Rounds two vectors to bf16, as BFloat16::encode does with finite numbers, and stores them as pairs.
  AMP_INLINE static void store_pair(const F& low, const F& high, float* to) {
    typedef uint32_t Word __attribute__((vector_size(Lanes * 4), aligned(4)));
    const Word a = (Word)low, b = (Word)high;
    const Word first = (a + 0x7fffu + ((a >> 16) & 1u)) >> 16, second = b + 0x7fffu + ((b >> 16) & 1u);
    *reinterpret_cast<Word*>(to) = first | (second & 0xffff0000u);
  }
  AMP_INLINE void finish(const I& q, int64_t j, F& to) const {
    number<Lanes, kind>(q, table_, *reinterpret_cast<const F*>(zero_ + j), to);
    to *= *reinterpret_cast<const F*>(scale_ + j);
  }
  // Dequantizes 4-bit integers: byte b of each lane contains the integers of two steps.
  AMP_INLINE void nibbles(int64_t b, float* to) const {
    for (int64_t j = 0; j < kSquare; j += Lanes) {
      I both;
      widen<Lanes>(bytes_[b] + j, both);
      I first = both & 15, second = both >> 4;
      if (m_.high_first) std::swap(first, second);
      if constexpr (kind == Kind::signed_integers) first = (first ^ 8) - 8, second = (second ^ 8) - 8;
      F x, y;
      finish(first, j, x);
      finish(second, j, y);
      if constexpr (pairs) {
        store_pair(x, y, to + b * width_ + j);
      } else {
        *reinterpret_cast<F*>(to + 2 * b * width_ + j) = x;
        *reinterpret_cast<F*>(to + (2 * b + 1) * width_ + j) = y;
      }
    }
  }
  AMP_INLINE void byte_values(int64_t b, int64_t j, F& to) const {
    I q;
    if constexpr (kind == Kind::signed_integers)
      widen_signed<Lanes>(bytes_[b] + j, q);
    else
      widen<Lanes>(bytes_[b] + j, q);
    finish(q, j, to);
  }
  // Dequantizes 8-bit integers: byte b of each lane is the integer of one step.
  AMP_INLINE void whole_bytes(int64_t b, float* to) const {
    for (int64_t j = 0; j < kSquare; j += Lanes) {
      F x;
      byte_values(b, j, x);
      if constexpr (pairs) {
        if (b % 2) continue;
        F y;
        byte_values(b + 1, j, y);
        store_pair(x, y, to + b / 2 * width_ + j);
      } else {
        *reinterpret_cast<F*>(to + b * width_ + j) = x;
      }
    }
  }
  // Dequantizes 16 columns of row r from c on, in one block.
  AMP_INLINE void row_part(int64_t r, int64_t c, int64_t block, float* to) {
    const uint8_t* const from = m_.data + (r * m_.row_bits + c * m_.bits) / 8;
    const int64_t s = scale_of(r, block);
    const float scale = scale_at(m_, s), zero = zero_of(r, block, s);
    if (m_.bits == 4) {
      typedef uint8_t Eight __attribute__((vector_size(8), aligned(1)));
      typedef uint16_t Words __attribute__((vector_size(16)));
      const Words w = __builtin_convertvector(*reinterpret_cast<const Eight*>(from), Words);
      const Words pairs_of_bytes = m_.high_first ? ((w >> 4) | (w << 8)) & 0x0f0f : (w | (w << 4)) & 0x0f0f;
      std::memcpy(bytes_[0], &pairs_of_bytes, kSquare);
    } else {
      std::memcpy(bytes_[0], from, kSquare);
    }
    const F all_zero = F{} + zero, all_scale = F{} + scale;
    for (int64_t j = 0; j < kSquare; j += Lanes) {
      I q;
      if (kind != Kind::signed_integers || m_.bits == 4)
        widen<Lanes>(bytes_[0] + j, q);
      else
        widen_signed<Lanes>(bytes_[0] + j, q);
      if (kind == Kind::signed_integers && m_.bits == 4) q = (q ^ 8) - 8;
      F x;
      number<Lanes, kind>(q, table_, all_zero, x);
      *reinterpret_cast<F*>(to + j) = x * all_scale;
    }
  }

  const QuantizedMatrix m_;
  const int64_t width_;
  const float same_zero_;  // the zero point, if all elements have the same one
  alignas(64) float table_[16], scale_[kSquare], zero_[kSquare];
  alignas(16) uint8_t bytes_[kSquare][kSquare];
};

// Calls fn.template operator()<Lanes, kind>() for the level of the CPU and the matrix.
template <class Fn>
void with_kind(const QuantizedMatrix& m, const Fn& fn) {
  at_level([&]<int Lanes>() AMP_INLINE {
    if (by_table(m))
      fn.template operator()<Lanes, Kind::table>();
    else if (m.codes == Codes::signed_integers)
      fn.template operator()<Lanes, Kind::signed_integers>();
    else
      fn.template operator()<Lanes, Kind::unsigned_integers>();
  });
}

// True if blocks of the matrix consist of whole groups of `group` columns that begin at multiples of `group`.
bool whole_blocks(const QuantizedMatrix& m, int64_t group) {
  if (m.flat_block != 0) return m.flat_block % group == 0 && m.columns % m.flat_block == 0;
  return m.scale_column == 0 || m.block_columns % group == 0;
}

// Returns true if Writer supports the matrix and the layout. It then packs the full panels of these lanes.
bool writes(const PackSource& x, int64_t l0, int64_t p0, int64_t depth, const PanelLayout& o) {
  const QuantizedMatrix& m = *x.quantized;
  const bool form = (m.bits == 4 || m.bits == 8) && m.row_bits % 8 == 0 && whole_blocks(m, kSquare);
  const bool type = o.pairs ? x.dtype == DType::bf16 : x.dtype == DType::f32;
  if (!form || !type || o.by_rows || !o.pad || o.width % kSquare != 0) return false;
  const int64_t deep = kSquare * 8 / m.bits, columns = x.depth_major ? p0 : l0;
  if (columns % kSquare != 0) return false;
  if (x.depth_major && depth % deep != 0) return false;
  return o.steps(depth) == (o.pairs ? (depth + 1) / 2 : depth);
}

template <bool pairs>
void write_panels(const PackSource& x, int64_t l0, int64_t lanes, int64_t p0, int64_t depth, const PanelLayout& o,
                  float* panels) {
  with_kind(*x.quantized, [&]<int Lanes, Kind kind>() AMP_INLINE {
    Writer<Lanes, kind, pairs> writer(*x.quantized, o.width);
    if (!x.depth_major) return writer.along(p0, depth, l0, lanes, o.steps(depth) * o.width, panels);
    for (int64_t l = 0; l < lanes; l += o.width) writer.across(l0 + l, p0, depth, panels + l * o.steps(depth));
  });
}

// Dequantizes as many lanes at a time as stay in the second-level cache, and packs them from there.
void pack_by_buffer(const PackSource& x, int64_t l0, int64_t lanes, int64_t p0, int64_t depth, const PanelLayout& o,
                    float* panels) {
  constexpr int64_t kLanes = 128;
  const int64_t strip = x.depth_major ? o.width : std::max<int64_t>(1, kLanes / o.width) * o.width;
  thread_local std::vector<float> elements;
  if (static_cast<int64_t>(elements.size()) < strip * depth) elements.resize(static_cast<size_t>(strip * depth));
  for (int64_t l = 0; l < lanes; l += strip) {
    const int64_t n = std::min(strip, lanes - l), ld = x.depth_major ? depth : n;
    if (x.depth_major)
      dequantize(*x.quantized, l0 + l, n, p0, depth, x.dtype, elements.data());
    else
      dequantize(*x.quantized, p0, depth, l0 + l, n, x.dtype, elements.data());
    pack_panels({elements.data(), x.dtype, ld, x.depth_major}, 0, n, 0, depth, o, panels + l * o.steps(depth));
  }
}

}  // namespace

void pack_quantized(const PackSource& x, int64_t l0, int64_t lanes, int64_t p0, int64_t depth, const PanelLayout& o,
                    float* panels) {
  const int64_t whole = lanes / o.width * o.width;  // the last panel may be narrower
  if (whole == 0 || !writes(x, l0, p0, depth, o)) return pack_by_buffer(x, l0, lanes, p0, depth, o, panels);
  if (o.pairs)
    write_panels<true>(x, l0, whole, p0, depth, o, panels);
  else
    write_panels<false>(x, l0, whole, p0, depth, o, panels);
  if (whole < lanes) pack_by_buffer(x, l0 + whole, lanes - whole, p0, depth, o, panels + whole * o.steps(depth));
}

}  // namespace amp::cpu
