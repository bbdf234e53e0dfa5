// Matrix products of a warp on the tensor cores: C (16, 8; fp32) += A (16, 16) B (16, 8), with A and B in fp16 or bf16.
// Operands come from shared memory or from the registers of an earlier result. Also asynchronous copies into shared
// memory, which overlap with arithmetic.
//
// Every lane holds a part of each matrix, in PTX's layout for mma.m16n8k16 (PTX ISA, "Matrix fragments"):
//   g = lane / 4, t = lane % 4
//   A (16, 16):  v[0] = (g, 2t..2t+1), v[1] = (g + 8, 2t..), v[2] = (g, 2t + 8..), v[3] = (g + 8, 2t + 8..)
//   B (16, 8):   v[0] = (2t..2t+1, g), v[1] = (2t + 8.., g)
//   C (16, 8):   v[0..1] = (g, 2t..2t+1), v[2..3] = (g + 8, 2t..)
// Two neighboring C have the layout of one A. The emulator runs the same kernels; its lanes exchange their parts.
//
// Matrices in shared memory are row-major, and their rows begin at multiples of 16 bytes. If the distance of two rows
// is 16 bytes more than a multiple of 128, the rows are read without bank conflicts.
#pragma once

#include "backend/cuda/launch.cuh"
#include "backend/cuda/raw.cuh"
#ifndef __CUDACC__
#include "backend/cuda/emulated_tile.h"
#endif

namespace amp::cuda {

struct TileA {
  uint32_t v[4];
};
struct TileB {
  uint32_t v[2];
};
struct TileC {
  float v[4];
};
DEV int tile_row() { return lane() >> 2; }          // row of C's v[0] and v[1]; v[2] and v[3] are 8 rows below
DEV int tile_column() { return (lane() & 3) * 2; }  // column of C's v[0] and v[2]

// Rounds two numbers to 16 bits and packs them.
template <DType type>
DEV uint32_t pack(float low, float high) {
  static_assert(type == DType::f16 || type == DType::bf16);
#ifdef __CUDA_ARCH__
  uint32_t r;
  if constexpr (type == DType::f16)
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  else
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
#else
  const auto bits = [](float f) -> uint32_t { return type == DType::f16 ? float_to_half(f) : float_to_bf16(f); };
  return bits(low) | bits(high) << 16;
#endif
}

// Returns x, but hides from the compiler that it does. Expressions of the result are therefore computed again, instead
// of being kept in registers since an earlier computation.
DEV int64_t recomputed(int64_t x) {
#ifdef __CUDA_ARCH__
  asm volatile("" : "+l"(x));
#endif
  return x;
}

#ifdef __CUDA_ARCH__

DEV unsigned shared_address(const void* p) { return static_cast<unsigned>(__cvta_generic_to_shared(p)); }

// Loads four 8x8 matrices. Lane i passes the address of row i % 8 of matrix i / 8.
DEV void load_matrices(uint32_t (&r)[4], const uint16_t* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(row))
               : "memory");
}
DEV void load_matrices_transposed(uint32_t (&r)[4], const uint16_t* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(row))
               : "memory");
}

template <DType type>
DEV void multiply_add(TileC& c, const TileA& a, const TileB& b) {
  if constexpr (type == DType::f16)
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c.v[0]), "+f"(c.v[1]), "+f"(c.v[2]), "+f"(c.v[3])
        : "r"(a.v[0]), "r"(a.v[1]), "r"(a.v[2]), "r"(a.v[3]), "r"(b.v[0]), "r"(b.v[1]));
  else
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c.v[0]), "+f"(c.v[1]), "+f"(c.v[2]), "+f"(c.v[3])
        : "r"(a.v[0]), "r"(a.v[1]), "r"(a.v[2]), "r"(a.v[3]), "r"(b.v[0]), "r"(b.v[1]));
}

// Starts an asynchronous copy of 16 bytes to shared memory. Only the first `bytes` (0 to 16) are read; others become
// 0.
DEV void copy_later(void* to, const void* from, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)),
               "l"(__cvta_generic_to_global(from)), "r"(bytes)
               : "memory");
}
DEV void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Waits until all groups of copies that this thread has committed, except the last `groups`, are complete. A
// sync_threads() must follow.
template <int groups>
DEV void await_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(groups) : "memory");
}

#elif defined(__CUDACC__)  // nvcc's pass for the host: the code must compile but does not run

DEV void load_matrices(uint32_t (&)[4], const uint16_t*) {}
DEV void load_matrices_transposed(uint32_t (&)[4], const uint16_t*) {}
template <DType type>
DEV void multiply_add(TileC&, const TileA&, const TileB&) {}
DEV void copy_later(void*, const void*, int) {}
DEV void commit_copies() {}
template <int groups>
DEV void await_copies() {}

#else

inline void load_matrices(uint32_t (&r)[4], const uint16_t* row) {
  const char* const all = emulator::show_bytes(&row, sizeof row);
  for (int m = 0; m < 4; ++m) {
    const uint16_t* at;
    std::memcpy(&at, all + (m * 8 + tile_row()) * emulator::kShown, sizeof at);
    check(reinterpret_cast<uintptr_t>(at) % 16 == 0, "a row of a matrix begins at a multiple of 16 bytes");
    r[m] = at[tile_column()] | static_cast<uint32_t>(at[tile_column() + 1]) << 16;
  }
}
inline void load_matrices_transposed(uint32_t (&r)[4], const uint16_t* row) {
  const char* const all = emulator::show_bytes(&row, sizeof row);
  for (int m = 0; m < 4; ++m) {
    r[m] = 0;
    for (int i = 0; i < 2; ++i) {
      const uint16_t* at;
      std::memcpy(&at, all + (m * 8 + tile_column() + i) * emulator::kShown, sizeof at);
      check(reinterpret_cast<uintptr_t>(at) % 16 == 0, "a row of a matrix begins at a multiple of 16 bytes");
      r[m] |= static_cast<uint32_t>(at[tile_row()]) << 16 * i;
    }
  }
}

template <DType type>
void multiply_add(TileC& c, const TileA& a, const TileB& b) {
  struct Shown {
    TileA a;
    TileB b;
  } const mine{a, b};
  const char* const all = emulator::show_bytes(&mine, sizeof mine);
  const auto of = [&](int lane) -> const Shown& {
    return *reinterpret_cast<const Shown*>(all + lane * emulator::kShown);
  };
  const auto number = [](uint32_t pair, int k) {
    const auto bits = static_cast<uint16_t>(pair >> (k & 1) * 16);
    return type == DType::f16 ? half_to_float(bits) : bf16_to_float(bits);
  };
  float left[2][16], right[2][16];
  for (int k = 0; k < 16; ++k) {
    const int t = (k & 7) / 2;
    for (int i = 0; i < 2; ++i) {
      left[i][k] = number(of(tile_row() * 4 + t).a.v[i + (k / 8) * 2], k);
      right[i][k] = number(of((tile_column() + i) * 4 + t).b.v[k / 8], k);
    }
  }
  for (int i = 0; i < 4; ++i) {
    for (int k = 0; k < 16; ++k) c.v[i] += left[i / 2][k] * right[i % 2][k];
  }
}

inline void copy_later(void* to, const void* from, int bytes) { emulator::copy_later(to, from, bytes); }
inline void commit_copies() { emulator::commit_copies(); }
template <int groups>
void await_copies() {
  emulator::await_copies(groups);
}

#endif

// Loads A from the 16x16 matrix at m with rows at distance ld (elements).
DEV TileA load_a(const uint16_t* m, int ld) {
  TileA a;
  load_matrices(a.v, m + (lane() & 15) * ld + (lane() >> 4) * 8);
  return a;
}
// Loads two B, columns 0..7 and 8..15 of a (16, 16) matrix whose transpose is stored at m.
DEV void load_b_pair(const uint16_t* m, int ld, TileB& left, TileB& right) {
  uint32_t r[4];
  load_matrices(r, m + ((lane() & 7) + (lane() >> 4) * 8) * ld + (lane() >> 3 & 1) * 8);
  left = {{r[0], r[1]}};
  right = {{r[2], r[3]}};
}
// Loads the left and the right B of a (16, 16) matrix, which is stored at m without transposition.
DEV void load_b_pair_rows(const uint16_t* m, int ld, TileB& left, TileB& right) {
  uint32_t r[4];
  load_matrices_transposed(r, m + (lane() & 15) * ld + (lane() >> 4) * 8);
  left = {{r[0], r[1]}};
  right = {{r[2], r[3]}};
}

// Returns an A whose left and right halves are two results, rounded to 16 bits.
template <DType type>
DEV TileA as_a(const TileC& left, const TileC& right) {
  return {{pack<type>(left.v[0], left.v[1]), pack<type>(left.v[2], left.v[3]), pack<type>(right.v[0], right.v[1]),
           pack<type>(right.v[2], right.v[3])}};
}

constexpr int64_t kSharedMemory = 99 << 10;  // bytes per block that are available from compute capability 8.0 on

// Launches a kernel that may use more than 48 KiB of shared memory. CUDA requires a function attribute for it.
template <class K>
void launch_large(CudaDevice& d, const Grid& g, const K& kernel) {
  check(g.shared <= kSharedMemory, "a block has more than kSharedMemory bytes of shared memory");
#ifdef __CUDACC__
  if (g.shared > 48 << 10)
    cudaFuncSetAttribute(entry<K>, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(g.shared));
#endif
  launch(d, g, kernel);
}

}  // namespace amp::cuda
