// The tensor-core products of tile.cuh in the emulator: operands from shared memory in both layouts, a result used as
// an operand, asynchronous copies.
#include "backend/cuda/tile.cuh"

#include <catch2/catch_all.hpp>
#include <cmath>

#include "tests/emulator/emulated_device.h"

using namespace amp;
using namespace amp::cuda;

namespace {

constexpr int kStride = 24;  // distance of rows in shared memory: 48 bytes

// c = a b and d = (a b) b for 16x16 matrices; all warps compute the same.
template <DType type>
struct Products {
  static constexpr bool cooperative = true;
  const uint16_t *a, *b;
  float *c, *d;
  bool transposed;  // b is stored transposed
  DEV void operator()() const {
    uint16_t* const sa = shared_memory<uint16_t>();
    uint16_t* const sb = sa + 16 * kStride;
    for (int i = thread_index(); i < 32; i += block_threads()) {
      copy_later(sa + i / 2 * kStride + i % 2 * 8, a + 8 * i, 16);
      copy_later(sb + i / 2 * kStride + i % 2 * 8, b + 8 * i, 16);
    }
    commit_copies();
    await_copies<0>();
    sync_threads();
    TileB left, right;
    if (transposed)
      load_b_pair(sb, kStride, left, right);
    else
      load_b_pair_rows(sb, kStride, left, right);
    TileC x[2] = {}, y[2] = {};
    const TileA ta = load_a(sa, kStride);
    multiply_add<type>(x[0], ta, left);
    multiply_add<type>(x[1], ta, right);
    const TileA tx = as_a<type>(x[0], x[1]);
    multiply_add<type>(y[0], tx, left);
    multiply_add<type>(y[1], tx, right);
    for (int half = 0; half < 2; ++half) {
      for (int i = 0; i < 4; ++i) {
        const int at = (tile_row() + i / 2 * 8) * 16 + half * 8 + tile_column() + i % 2;
        c[at] = x[half].v[i];
        d[at] = y[half].v[i];
      }
    }
  }
};

template <DType type>
void check_products(bool transposed, int threads) {
  const auto device = make_emulated_device();
  const auto bits = [](float f) { return type == DType::f16 ? float_to_half(f) : float_to_bf16(f); };
  alignas(16) uint16_t a[256], b[256];
  float va[256], vb[256], c[256], d[256];
  for (int i = 0; i < 256; ++i) {
    va[i] = static_cast<float>(i * 37 % 19 - 9) / 8;
    vb[i] = static_cast<float>(i * 53 % 23 - 11) / 16;
    a[i] = bits(va[i]);
    b[transposed ? i % 16 * 16 + i / 16 : i] = bits(vb[i]);
  }
  launch(*device, {1, threads, 2 * 16 * kStride * 2}, Products<type>{a, b, c, d, transposed});
  for (int i = 0; i < 16; ++i) {
    for (int j = 0; j < 16; ++j) {
      double want = 0, twice = 0;
      for (int k = 0; k < 16; ++k) {
        want += va[i * 16 + k] * vb[k * 16 + j];
        twice += c[i * 16 + k] * vb[k * 16 + j];
      }
      CHECK(c[i * 16 + j] == Catch::Approx(want).margin(1e-6));
      CHECK(std::abs(d[i * 16 + j] - twice) <= (type == DType::f16 ? 0x1p-11 : 0x1p-8) * 60);
    }
  }
}

// Each thread reads its copied data, after waiting for all groups of copies or for one group too few.
struct Late {
  static constexpr bool cooperative = true;
  const float* x;
  float* y;
  bool waits;
  DEV void operator()() const {
    float* const s = shared_memory<float>();
    if (thread_index() == 0) {
      copy_later(s, x, 16);
      commit_copies();
      copy_later(s + 4, x, 8);
      commit_copies();
    }
    if (waits)
      await_copies<0>();
    else
      await_copies<1>();
    sync_threads();
    if (thread_index() < 8) y[thread_index()] = s[thread_index()];
  }
};

}  // namespace

TEST_CASE("tensor cores multiply 16x16 matrices", "[cuda]") {
  for (const bool transposed : {false, true}) {
    for (const int threads : {32, 128}) {
      check_products<DType::f16>(transposed, threads);
      check_products<DType::bf16>(transposed, threads);
    }
  }
}

TEST_CASE("an asynchronous copy arrives when the thread waits for it", "[cuda]") {
  const auto device = make_emulated_device();
  alignas(16) const float x[4] = {1, 2, 3, 4};
  float y[8];
  launch(*device, {1, 32, 32}, Late{x, y, true});
  const float want[8] = {1, 2, 3, 4, 1, 2, 0, 0};
  for (int i = 0; i < 8; ++i) CHECK(y[i] == want[i]);
  launch(*device, {1, 32, 32}, Late{x, y, false});
  for (int i = 0; i < 8; ++i) CHECK((i < 4 ? y[i] == want[i] : std::isnan(y[i])));
}
