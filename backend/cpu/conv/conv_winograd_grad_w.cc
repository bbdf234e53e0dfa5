// Gradient to the weight by Winograd's algorithm: sums over tiles of transformed input windows times transformed
// output gradients.
// Blocks of tiles are processed in groups that fit into the cache. Sums stay transformed until all groups are
// added.
#include <memory>

#include "backend/cpu/conv/conv_channels_pack.h"
#include "backend/cpu/conv/conv_winograd.h"
#include "backend/cpu/conv/conv_winograd_tiles.h"
#include "backend/cpu/gemm/block_transpose.h"

namespace amp {

namespace {

using namespace winograd;
using conv_tiles::block_count;
using conv_tiles::block_width;
using conv_tiles::kBlock;
using conv_tiles::kLane;
using conv_tiles::round_up;
using cpu::at_level;

constexpr int64_t kRange = 48;  // input channels per task; a multiple of the rows of a register tile

// Computes the gradient. It processes a group of blocks of tiles at a time. A task is a range of input channels and a
// block of output channels. If there is only one group, a task transforms its sums to dw immediately. A shard then only
// needs memory for the sums of one task.
//   v      V[block of the group][place][input channel][tile]
//   d      D[block of the group][place][tile][output channel]
//   sums   U[place][input channel][output channel], over all groups; with one group, the sums of one task per shard
template <class F>
struct WeightGradient {
  Tiling tiling;
  Planes inputs, outputs;
  int64_t c, m;                   // input and output channels
  int64_t group = 1, shards = 1;  // group: number of blocks per group; shards: number of shards of the tasks
  Stored x, dy;
  float *dw, *v = nullptr, *d = nullptr, *sums = nullptr;

  // Strides of a task's sums: between places (positions in a transformed tile) and between rows (input channels).
  struct Sums {
    float* at;
    int64_t place, row;
  };

  int64_t columns() const { return round_up(m, kLane); }
  int64_t ranges() const { return (c + kRange - 1) / kRange; }
  // V has space for kRows more input channels, because a register tile may extend past the last one.
  int64_t v_place() const { return (c + kRows) * tiling.pitch(); }
  int64_t d_place() const { return tiling.pitch() * columns(); }
  bool at_once() const { return group == tiling.blocks(); }
  int64_t sums_size() const { return at_once() ? F::kPlaces * kRange * kBlock : F::kPlaces * (c + kRows) * columns(); }

  void transform_input(int64_t item, int64_t block, int64_t channel) const;
  void transform_grad(int64_t item, int64_t block, int64_t channel) const;
  void multiply_place(int64_t place, int64_t first, int64_t count, int64_t range, int64_t block, const Sums& to) const;
  void store(const Sums& from, int64_t channel, int64_t row) const;
  void transform_group(int64_t first, int64_t count) const;
  void run_at_once() const;
  void run_groups() const;
};

template <class F>
void WeightGradient<F>::transform_input(int64_t item, int64_t block, int64_t channel) const {
  const Tiling::Block of = tiling.block(block);
  at_level([&]<int Lanes>() AMP_INLINE {
    for (int64_t i = channel; i < std::min(c, channel + kLane); ++i) {
      with_stored(x, i * inputs.height * inputs.width, [&](auto* from) AMP_INLINE {
        transform<F, F::kIn, Lanes>(tiling, of, inputs, from, v + item * F::kPlaces * v_place() + i * tiling.pitch(),
                                    v_place());
      });
    }
  });
}

// Transforms the gradient for 16 output channels, and transposes the result from [channel][tile] to [tile][channel].
template <class F>
void WeightGradient<F>::transform_grad(int64_t item, int64_t block, int64_t channel) const {
  const Tiling::Block of = tiling.block(block);
  constexpr int64_t kPitch = kMostTiles + kLane, kPlace = kLane * kPitch;
  alignas(64) float rows[F::kPlaces * kPlace];  // [place][channel][tile]
  const int64_t n = std::min(kLane, m - channel);
  float* to = d + item * F::kPlaces * d_place() + channel;
  at_level([&]<int Lanes>() AMP_INLINE {
    for (int64_t i = 0; i < n; ++i) {
      with_stored(dy, (channel + i) * outputs.height * outputs.width, [&](auto* from) AMP_INLINE {
        transform<F, F::kOut, Lanes>(tiling, of, outputs, from, rows + i * kPitch, kPlace);
      });
    }
    for (int64_t place = 0; place < F::kPlaces; ++place) {
      for (int64_t t = 0; t < of.tiles(); t += 16) {
        cpu::transpose_block<Lanes>(rows + place * kPlace + t, kPitch, n, 16,
                                    [&](int64_t i) AMP_INLINE { return to + place * d_place() + (t + i) * columns(); });
      }
    }
  });
}

// Multiplies a range of input channels by a block of output channels at one place, for `count` blocks of tiles from
// `first` on.
template <class F>
void WeightGradient<F>::multiply_place(int64_t place, int64_t first, int64_t count, int64_t range, int64_t block,
                                       const Sums& to) const {
  const int64_t row = range * kRange, rows = std::min(kRange, c - row);
  at_level([&]<int Lanes>() AMP_INLINE {
    for (int64_t i = 0; i < count; ++i) {
      const float* a = v + (i * F::kPlaces + place) * v_place() + row * tiling.pitch();
      const float* b = d + (i * F::kPlaces + place) * d_place() + block * kBlock;
      multiply<Lanes>(a, tiling.pitch(), 1, b, columns(), tiling.block(first + i).tiles(), to.at + place * to.place,
                      to.row, first + i > 0, rows, block_width(m, block));
    }
  });
}

// Transforms the sums of up to 16 input channels by up to 16 output channels, and writes them to dw. from: the first
// sum.
template <class F>
void WeightGradient<F>::store(const Sums& from, int64_t channel, int64_t row) const {
  alignas(64) float taps[kLane * 9][kLane];  // [channel * 9 + tap][row]
  const int64_t n = std::min(kLane, c - channel), n_rows = std::min(kLane, m - row);
  at_level([&]<int Lanes>() AMP_INLINE {
    using V = typename cpu::VectorOf<Lanes>::type;
    using Local = typename cpu::VectorOf<Lanes>::local;
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < kLane; j += Lanes) {
        const float* at = from.at + i * from.row + j;
        Local half[3][F::kIn];
        for (int k = 0; k < F::kIn; ++k) {
          Local u[F::kIn], g[3];
          for (int p = 0; p < F::kIn; ++p) u[p] = *reinterpret_cast<const V*>(at + (p * F::kIn + k) * from.place);
          F::weight_grad(u, g);
          for (int p = 0; p < 3; ++p) half[p][k] = g[p];
        }
        for (int p = 0; p < 3; ++p) {
          Local g[3];
          F::weight_grad(half[p], g);
          for (int k = 0; k < 3; ++k) *reinterpret_cast<V*>(taps[i * 9 + p * 3 + k] + j) = g[k];
        }
      }
    }
    float* to = dw + (row * c + channel) * 9;
    int64_t j = 0;
    for (; j + 16 <= n * 9; j += 16)
      cpu::transpose_block<Lanes>(taps[j], kLane, 16, n_rows, [&](int64_t i) AMP_INLINE { return to + i * c * 9 + j; });
    for (; j < n * 9; ++j) {
      for (int64_t i = 0; i < n_rows; ++i) to[i * c * 9 + j] = taps[j][i];
    }
  });
}

template <class F>
void WeightGradient<F>::transform_group(int64_t first, int64_t count) const {
  const int64_t in_runs = (c + kLane - 1) / kLane, out_runs = columns() / kLane;
  parallel_for(count * (in_runs + out_runs), [&](int64_t i) {
    const int64_t item = i % count, run = i / count;
    if (run < in_runs)
      transform_input(item, first + item, run * kLane);
    else
      transform_grad(item, first + item, (run - in_runs) * kLane);
  });
}

template <class F>
void WeightGradient<F>::run_at_once() const {
  transform_group(0, group);
  const int64_t tasks = ranges() * block_count(m);
  parallel_for(shards, [&](int64_t s) {
    const Sums mine{sums + s * sums_size(), kRange * kBlock, kBlock};
    for (int64_t i = tasks * s / shards; i < tasks * (s + 1) / shards; ++i) {
      const int64_t range = i % ranges(), block = i / ranges();
      for (int64_t place = 0; place < F::kPlaces; ++place) multiply_place(place, 0, group, range, block, mine);
      for (int64_t q = 0; q < std::min(kRange, c - range * kRange); q += kLane) {
        for (int64_t r = 0; r < block_width(m, block); r += kLane)
          store({mine.at + q * mine.row + r, mine.place, mine.row}, range * kRange + q, block * kBlock + r);
      }
    }
  });
}

template <class F>
void WeightGradient<F>::run_groups() const {
  const int64_t place_size = (c + kRows) * columns(), blocks = block_count(m);
  for (int64_t first = 0; first < tiling.blocks(); first += group) {
    const int64_t count = std::min(group, tiling.blocks() - first);
    transform_group(first, count);
    parallel_for(F::kPlaces * ranges(), [&](int64_t i) {
      const int64_t range = i / F::kPlaces, place = i % F::kPlaces;
      for (int64_t block = 0; block < blocks; ++block) {
        multiply_place(place, first, count, range, block,
                       {sums + range * kRange * columns() + block * kBlock, place_size, columns()});
      }
    });
  }
  const int64_t in_runs = (c + kLane - 1) / kLane, out_runs = columns() / kLane;
  parallel_ranges(in_runs * out_runs, 4, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t channel = i % in_runs * kLane, row = i / in_runs * kLane;
      store({sums + channel * columns() + row, place_size, columns()}, channel, row);
    }
  });
}

template <class F>
Kernel grad_w(const ConvShape& s, Carver& carve, const Stored& x, const Stored& dy, float* dw) {
  const auto& [depth, h, w] = s.window;
  WeightGradient<F> g{.tiling = Tiling(s.n, h.out, w.out, F::kOut, kMostTiles),
                      .inputs = {h.in, w.in, h.pad, w.pad, s.c * s.in_size()},
                      .outputs = {h.out, w.out, 0, 0, s.m * s.out_size()},
                      .c = s.c,
                      .m = s.m,
                      .x = x,
                      .dy = dy,
                      .dw = dw};
  const int64_t of_block = F::kPlaces * (g.v_place() + g.d_place()), blocks = g.tiling.blocks();
  // kNear: maximum floats of a group. If all tiles together have at most kAll floats, they form one
  // group.
  constexpr int64_t kNear = 640 << 10, kAll = 2 << 20;
  g.group = blocks * of_block <= kAll ? blocks : std::min(blocks, std::max<int64_t>(2, kNear / of_block));
  g.shards = g.at_once() ? std::min<int64_t>(16, g.ranges() * block_count(s.m)) : 1;
  g.v = carve.take<float>(g.group * F::kPlaces * g.v_place() + kLane);
  g.d = carve.take<float>(g.group * F::kPlaces * g.d_place() + kLane);
  g.sums = carve.take<float>(g.shards * g.sums_size());
  return [f = std::make_shared<const WeightGradient<F>>(g)] { f->at_once() ? f->run_at_once() : f->run_groups(); };
}

}  // namespace

Kernel conv_winograd_grad_w(const ConvShape& s, Winograd tile, Carver& carve, const Stored& x, const Stored& dy,
                            float* dw) {
  return tile == Winograd::f2 ? grad_w<F2>(s, carve, x, dy, dw) : grad_w<F4>(s, carve, x, dy, dw);
}

}  // namespace amp
