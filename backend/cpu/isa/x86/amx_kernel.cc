// The AMX micro-kernel (amx_tiles.h), and its row in the table of kernels.
#include <algorithm>
#include <array>
#include <utility>

#include "backend/cpu/gemm/micro_kernel.h"
#include "backend/cpu/isa/x86/amx_convolution.h"
#include "backend/cpu/isa/x86/amx_tiles.h"
#include "backend/cpu/isa/x86/kernels.h"

namespace amp::cpu::x86 {
namespace {

using amx::kTile;

constexpr int kRows = 32, kWidth = 32;

// Computes a block of R rows and V tiles of columns of C. If R is not a multiple of a tile's rows, the sums are
// computed in scratch memory with whole tiles.
template <int R, int V>
void block(int64_t steps, const void* a, int64_t /*lda*/, const void* b, int64_t /*ldb*/, float* c, int64_t ldc,
           bool add) {
  constexpr int kTiles = (R + kTile - 1) / kTile;
  constexpr int64_t kARow = 4 * kTile, kBRow = 4 * kWidth;
  const amx::Regular left{static_cast<const char*>(a), kARow, kRows * kARow, kTile * kARow},
      right{static_cast<const char*>(b), kBRow, kTile * kBRow, 4 * kTile};
  const int64_t groups = steps / kTile;
  if constexpr (R % kTile == 0) {
    amx::multiply<kTiles, V>(groups, left, right, c, 4 * ldc, add);
  } else {
    alignas(64) float sums[kTiles * kTile][V * kTile];
    for (int64_t r = 0; add && r < kTiles * kTile; ++r) {
      if (r < R)
        std::copy_n(c + r * ldc, V * kTile, sums[r]);
      else
        std::fill_n(sums[r], V * kTile, 0.0f);
    }
    amx::multiply<kTiles, V>(groups, left, right, sums[0], 4 * V * kTile, add);
    for (int64_t r = 0; r < R; ++r) std::copy_n(sums[r], V * kTile, c + r * ldc);
  }
}

template <size_t... N>
constexpr std::array<MicroKernel::Block, sizeof...(N)> make_table(std::index_sequence<N...>) {
  return {&block<static_cast<int>(N / 2) + 1, static_cast<int>(N % 2) + 1>...};
}
constexpr auto kTable = make_table(std::make_index_sequence<2 * kRows>{});
constexpr MicroKernel kAmx{.rows = kRows, .width = kWidth, .pairs = true, .table = kTable.data(), .group = kTile};

}  // namespace

const TileUnit kTiles{kAmx, amx::begin, amx::end, amx::correlate, amx::add_products};

}  // namespace amp::cpu::x86
