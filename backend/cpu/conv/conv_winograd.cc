// Winograd convolution for 3x3 kernels (conv_winograd.h): forward and the gradient to x.
// Three stages: transform weights and tiles, one matrix product per position in a tile, inverse transform. The shape
// decides whether tasks are blocks of tiles or rows of channels.

#include "backend/cpu/conv/conv_winograd.h"

#include <memory>

#include "backend/cpu/conv/conv_channels_pack.h"
#include "backend/cpu/conv/conv_winograd_tiles.h"
#include "backend/cpu/gemm/block_transpose.h"

namespace amp {

namespace {

using namespace winograd;
using conv_tiles::kLane;
using conv_tiles::round_up;
using cpu::at_level;

// Output channels whose weights are stored together; a multiple of a register tile's rows.
constexpr int64_t kRowBlock = 48;
constexpr int64_t kInner = 64;  // number of products that are summed in registers before they are added to the sums

// A correlation of images with weights, used by forward and by the gradient to x.
//   weights  U[place][block of rows][inner][row of the block]
//   v        V[place][inner][tile]      of a block of tiles
//   sums     M[place][row][tile]
// With many blocks of tiles, all weights are transformed up front, and each shard processes some of the blocks with its
// own memory for v and sums. With few blocks, v of all blocks is computed up front, and each shard processes some of
// the rows: it transforms a chunk of weights just before the chunk is used.
template <class F>
struct Correlation {
  Tiling tiling;
  Planes planes;
  int64_t inner, rows;  // channels; inner: that the correlation reads, rows: that it writes
  // The weight of (row, channel, tap) is w[row * row_stride + channel * inner_stride + tap]. The gradient to x
  // reverses the taps.
  int64_t row_stride, inner_stride, weights_size;
  bool turned;
  Stored source;
  const float *w, *bias;
  StoredOut target;
  float *weights = nullptr, *v = nullptr, *sums = nullptr;
  bool by_rows = false;
  int64_t shards = 1, row_block = kRowBlock;  // row_block: number of rows per task if by_rows is true

  int64_t chunk_stride() const { return round_up(row_block, kLane); }
  int64_t chunk_place() const { return kInner * chunk_stride() + kLane; }
  int64_t weights_place() const { return inner * round_up(rows, kLane) + kLane; }
  int64_t v_place() const { return inner * tiling.pitch() + kLane; }
  int64_t v_size() const { return F::kPlaces * v_place(); }
  int64_t sums_place() const { return ((by_rows ? row_block : rows) + kRows) * tiling.width; }
  int64_t sums_size() const { return F::kPlaces * sums_place(); }
  int64_t plane_out() const { return tiling.out_h * tiling.out_w; }

  void pack_weights(int64_t row, int64_t begin, int64_t end, float* to, int64_t stride, int64_t place) const;
  void pack_all() const;
  void transform_block(int64_t block, int64_t begin, int64_t end, float* to) const;
  void multiply_block(const float* v_of, float* sums_of) const;
  void multiply_rows(int64_t first, int64_t n, float* chunk, float* sums_of) const;
  void inverse_block(int64_t block, const float* sums_of, int64_t first, int64_t n) const;
  void run_by_blocks() const;
  void run_by_rows() const;
};

// Transforms the weights of rows [row, row + 16) and channels [begin, end), at most 16 channels. to: the address that
// place 0 of the first row and channel is written to.
template <class F>
void Correlation<F>::pack_weights(int64_t row, int64_t begin, int64_t end, float* to, int64_t stride,
                                  int64_t place) const {
  const int64_t n = end - begin, n_rows = std::min(kLane, rows - row);
  alignas(64) float taps[16 * 9 + 16][16];  // [channel * 9 + tap][row]
  const float* from = w + row * row_stride + begin * inner_stride;
  at_level([&]<int Lanes>() AMP_INLINE {
    using V = typename cpu::VectorOf<Lanes>::type;
    using Local = typename cpu::VectorOf<Lanes>::local;
    if (inner_stride == 9) {  // the weights of a row are contiguous
      for (int64_t j = 0; j < n * 9; j += 16) {
        cpu::transpose_block<Lanes>(from + j, row_stride, n_rows, std::min<int64_t>(16, n * 9 - j),
                                    [&](int64_t i) AMP_INLINE { return taps[j + i]; });
      }
    } else {  // the weights of a channel's rows are contiguous
      for (int64_t c = 0; c < n; ++c) {
        const bool room = (row + n_rows - 1) * row_stride + (begin + c) * inner_stride + 16 <= weights_size;
        cpu::transpose_block<Lanes>(from + c * inner_stride, row_stride, n_rows, room ? 16 : 9,
                                    [&](int64_t i) AMP_INLINE { return taps[c * 9 + i]; });
      }
    }
    for (int64_t c = 0; c < n; ++c) {
      for (int64_t j = 0; j < 16; j += Lanes) {
        Local half[F::kIn][3];
        for (int k = 0; k < 3; ++k) {
          Local g[3], u[F::kIn];
          for (int i = 0; i < 3; ++i)
            g[i] = *reinterpret_cast<const V*>(taps[c * 9 + (turned ? 8 - i * 3 - k : i * 3 + k)] + j);
          F::weight(g, u);
          for (int i = 0; i < F::kIn; ++i) half[i][k] = u[i];
        }
        for (int i = 0; i < F::kIn; ++i) {
          Local u[F::kIn];
          F::weight(half[i], u);
          for (int k = 0; k < F::kIn; ++k) *reinterpret_cast<V*>(to + c * stride + (i * F::kIn + k) * place + j) = u[k];
        }
      }
    }
  });
}

template <class F>
void Correlation<F>::pack_all() const {
  const int64_t groups = (rows + kLane - 1) / kLane, runs = (inner + kLane - 1) / kLane;
  parallel_ranges(groups * runs, 8, [&](int64_t from, int64_t to) {
    for (int64_t i = from; i < to; ++i) {
      const int64_t c = i % runs * kLane, row = i / runs * kLane, block = row / kRowBlock;
      const int64_t stride = std::min(kRowBlock, round_up(rows, kLane) - block * kRowBlock);
      pack_weights(row, c, std::min(inner, c + kLane),
                   weights + block * kRowBlock * inner + c * stride + row % kRowBlock, stride, weights_place());
    }
  });
}

template <class F>
void Correlation<F>::transform_block(int64_t block, int64_t begin, int64_t end, float* to) const {
  const Tiling::Block of = tiling.block(block);
  at_level([&]<int Lanes>() AMP_INLINE {
    for (int64_t c = begin; c < end; ++c) {
      with_stored(source, c * planes.height * planes.width, [&](auto* from) AMP_INLINE {
        transform<F, F::kIn, Lanes>(tiling, of, planes, from, to + c * tiling.pitch(), v_place());
      });
    }
  });
}

template <class F>
void Correlation<F>::multiply_block(const float* v_of, float* sums_of) const {
  const int64_t width = tiling.width;
  at_level([&]<int Lanes>() AMP_INLINE {
    for (int64_t place = 0; place < F::kPlaces; ++place) {
      for (int64_t c = 0; c < inner; c += kInner) {
        for (int64_t row = 0; row < rows; row += kRowBlock) {
          const int64_t stride = std::min(kRowBlock, round_up(rows, kLane) - row);
          multiply<Lanes>(weights + place * weights_place() + row * inner + c * stride, 1, stride,
                          v_of + place * v_place() + c * tiling.pitch(), tiling.pitch(), std::min(kInner, inner - c),
                          sums_of + place * sums_place() + row * width, width, c > 0, std::min(kRowBlock, rows - row),
                          width);
        }
      }
    }
  });
}

// Computes n rows from `first` on, for all blocks of tiles. chunk: memory for the transformed weights of kInner
// channels.
template <class F>
void Correlation<F>::multiply_rows(int64_t first, int64_t n, float* chunk, float* sums_of) const {
  const int64_t width = tiling.width;
  for (int64_t c = 0; c < inner; c += kInner) {
    const int64_t k = std::min(kInner, inner - c);
    for (int64_t r = 0; r < n; r += kLane) {
      for (int64_t i = 0; i < k; i += kLane) {
        pack_weights(first + r, c + i, c + std::min(k, i + kLane), chunk + i * chunk_stride() + r, chunk_stride(),
                     chunk_place());
      }
    }
    at_level([&]<int Lanes>() AMP_INLINE {
      for (int64_t block = 0; block < tiling.blocks(); ++block) {
        for (int64_t place = 0; place < F::kPlaces; ++place) {
          multiply<Lanes>(chunk + place * chunk_place(), 1, chunk_stride(),
                          v + block * v_size() + place * v_place() + c * tiling.pitch(), tiling.pitch(), k,
                          sums_of + block * sums_size() + place * sums_place(), width, c > 0, n, width);
        }
      }
    });
  }
}

// Applies the inverse transform to n rows from `first` on, whose sums begin at sums_of.
template <class F>
void Correlation<F>::inverse_block(int64_t block, const float* sums_of, int64_t first, int64_t n) const {
  const Tiling::Block of = tiling.block(block);
  at_level([&]<int Lanes>() AMP_INLINE {
    for (int64_t i = 0; i < n; ++i) {
      with_stored(target, (first + i) * plane_out(), [&](auto* to) AMP_INLINE {
        inverse<F, Lanes>(tiling, of, sums_of + i * tiling.width, sums_place(), bias ? bias[first + i] : 0.0f, to,
                          rows * plane_out());
      });
    }
  });
}

template <class F>
void Correlation<F>::run_by_blocks() const {
  pack_all();
  const int64_t blocks = tiling.blocks();
  parallel_for(shards, [&](int64_t s) {
    float *my_v = v + s * v_size(), *my_sums = sums + s * sums_size();
    for (int64_t i = blocks * s / shards; i < blocks * (s + 1) / shards; ++i) {
      transform_block(i, 0, inner, my_v);
      multiply_block(my_v, my_sums);
      inverse_block(i, my_sums, 0, rows);
    }
  });
}

template <class F>
void Correlation<F>::run_by_rows() const {
  const int64_t blocks = tiling.blocks(), runs = (inner + kLane - 1) / kLane;
  parallel_for(blocks * runs, [&](int64_t i) {
    const int64_t c = i / blocks * kLane;
    transform_block(i % blocks, c, std::min(inner, c + kLane), v + i % blocks * v_size());
  });
  const int64_t tasks = (rows + row_block - 1) / row_block;
  parallel_for(shards, [&](int64_t s) {
    float* chunk = weights + s * F::kPlaces * chunk_place();
    float* my_sums = sums + s * blocks * sums_size();
    for (int64_t i = tasks * s / shards; i < tasks * (s + 1) / shards; ++i) {
      const int64_t first = i * row_block, n = std::min(row_block, rows - first);
      multiply_rows(first, n, chunk, my_sums);
      for (int64_t block = 0; block < blocks; ++block) inverse_block(block, my_sums + block * sums_size(), first, n);
    }
  });
}

template <class F>
Kernel correlate(Correlation<F> c, Carver& carve) {
  const int64_t blocks = c.tiling.blocks();
  c.by_rows = blocks < 8 && c.tiling.tiles() <= 128;
  if (c.by_rows) {
    c.row_block = c.rows >= 4 * kRowBlock ? kRowBlock : c.rows >= 2 * kRowBlock ? kRowBlock / 2 : kRowBlock / 4;
    c.shards = std::min<int64_t>(16, (c.rows + c.row_block - 1) / c.row_block);
    c.weights = carve.take<float>(c.shards * F::kPlaces * c.chunk_place());
    c.v = carve.take<float>(blocks * c.v_size() + kLane);
    c.sums = carve.take<float>(c.shards * blocks * c.sums_size());
    return [s = std::make_shared<const Correlation<F>>(std::move(c))] { s->run_by_rows(); };
  }
  c.shards = std::min<int64_t>(blocks, 16);
  c.weights = carve.take<float>(F::kPlaces * c.weights_place());
  c.v = carve.take<float>(c.shards * c.v_size() + kLane);
  c.sums = carve.take<float>(c.shards * c.sums_size());
  return [s = std::make_shared<const Correlation<F>>(std::move(c))] { s->run_by_blocks(); };
}

// Returns the number of tiles per block for which the inputs and outputs of a block stay in cache.
template <class F>
int64_t block_tiles(int64_t channels) {
  constexpr int64_t kNear = 700 << 10;  // bytes of a block that should stay in cache
  return std::clamp<int64_t>(kNear / (F::kPlaces * channels * 4) / 16 * 16, 32, kMostTiles);
}

template <class F>
Kernel forward(const ConvShape& s, Carver& carve, const Stored& x, const float* w, const float* bias,
               const StoredOut& y) {
  const auto& [d, h, q] = s.window;
  return correlate(Correlation<F>{.tiling = Tiling(s.n, h.out, q.out, F::kOut, block_tiles<F>(s.c + s.m)),
                                  .planes = {h.in, q.in, h.pad, q.pad, s.c * s.in_size()},
                                  .inner = s.c,
                                  .rows = s.m,
                                  .row_stride = s.c * 9,
                                  .inner_stride = 9,
                                  .weights_size = s.c * s.m * 9,
                                  .turned = false,
                                  .source = x,
                                  .w = w,
                                  .bias = bias,
                                  .target = y},
                   carve);
}
template <class F>
Kernel grad_x(const ConvShape& s, Carver& carve, const Stored& dy, const float* w, const StoredOut& dx) {
  const auto& [d, h, q] = s.window;
  return correlate(Correlation<F>{.tiling = Tiling(s.n, h.in, q.in, F::kOut, block_tiles<F>(s.c + s.m)),
                                  .planes = {h.out, q.out, 2 - h.pad, 2 - q.pad, s.m * s.out_size()},
                                  .inner = s.m,
                                  .rows = s.c,
                                  .row_stride = 9,
                                  .inner_stride = s.c * 9,
                                  .weights_size = s.c * s.m * 9,
                                  .turned = true,
                                  .source = dy,
                                  .w = w,
                                  .bias = nullptr,
                                  .target = dx},
                   carve);
}

}  // namespace

bool conv_winograd_fits(const ConvShape& s) {
  const auto is_3 = [](const WindowAxis& a) {
    return a.kernel == 3 && a.stride == 1 && a.dilation == 1 && a.pad >= 0 && a.pad <= 2 && a.in > 0 && a.out > 0;
  };
  const WindowAxis& d = s.window[0];
  return s.groups == 1 && s.n > 0 && d.in == 1 && d.out == 1 && d.kernel == 1 && is_3(s.window[1]) && is_3(s.window[2]);
}

Winograd winograd_tile(const ConvShape& s, double saved) {
  if (!conv_winograd_fits(s) || s.c < kLane || s.m < kLane) return Winograd::none;
  // The estimate counts products per input and output channel, with factors measured on a Zen 4 (bench/conv_speed.cc).
  // It adds the products of tiles in whole vectors, the transforms of the weight, and the transforms of tiles. An input
  // tile is transformed once for all output channels, and an output tile once for all input channels (shared).
  const int64_t height = s.window[1].out, width = s.window[2].out;
  const double shared = 20.0 / static_cast<double>(s.c) + 20.0 / static_cast<double>(s.m);
  const auto products = [&](int64_t tile) {
    const auto places = static_cast<double>((tile + 2) * (tile + 2));
    const int64_t tiles = s.n * ((height + tile - 1) / tile) * ((width + tile - 1) / tile);
    return places * (static_cast<double>(round_up(tiles, kLane)) * (1 + shared) + 6);
  };
  const double f2 = products(F2::kOut), f4 = products(F4::kOut);
  if (saved * std::min(f2, f4) > 9.0 * static_cast<double>(s.n * height * width) * (1 + shared)) return Winograd::none;
  return f2 < f4 ? Winograd::f2 : Winograd::f4;
}

Kernel conv_winograd(const ConvShape& s, Winograd tile, Carver& carve, const Stored& x, const float* w,
                     const float* bias, const StoredOut& y) {
  return tile == Winograd::f2 ? forward<F2>(s, carve, x, w, bias, y) : forward<F4>(s, carve, x, w, bias, y);
}
Kernel conv_winograd_grad_x(const ConvShape& s, Winograd tile, Carver& carve, const Stored& dy, const float* w,
                            const StoredOut& dx) {
  return tile == Winograd::f2 ? grad_x<F2>(s, carve, dy, w, dx) : grad_x<F4>(s, carve, dy, w, dx);
}

}  // namespace amp
