// Results by rows of output channels: a tile of A holds weights (16 output channels by 16 pairs of input channels), one
// of B the same pairs of 16 neighbouring pixels, which lie in memory as the image has them. Pixels are counted over
// padded rows; what a row has behind its last one is computed and dropped.
#include <memory>

#include "backend/cpu/amx_tiles.h"
#include "backend/cpu/conv_correlation.h"
#include "backend/rows.h"
#include "base/amx.h"

namespace amp {

namespace {

using namespace conv_tiles;

constexpr int64_t kRows = 32;           // output channels of a task
constexpr int64_t kPlaneColumns = 256;  // pixels of a task, and of the smallest plane
constexpr int64_t kPanel = kRows * amx::kTile;

struct PlaneCorrelation : Correlation {
  int64_t width = 0, plane = 0;  // floats of a padded row, and from a plane to the next
  int64_t channels = 0;          // pairs, whole tiles of them
  int64_t together = 1;          // images packed at a time
  std::vector<int64_t> offset =
      {};  // bytes from a plane's pixel to what it is multiplied with, by (tap, tile of pairs)
  float *weights = nullptr, *planes = nullptr;

  int64_t taps() const { return static_cast<int64_t>(plan.parts[0].tap.size()); }
  int64_t depth() const { return channels / amx::kTile; }
  int64_t blocks() const { return (rows + kRows - 1) / kRows; }
  int64_t pixels() const { return (out[1] - 1) * width + out[2]; }
  int64_t image_floats() const { return channels * plane; }

  void pack_weights(int64_t block, int64_t tile) const;
  void pack_plane(int64_t image, int64_t pair, float* to) const;
  void run_task(int64_t image, const float* packed, int64_t block, int64_t first) const;
  template <int Lanes>
  void store(const float* sums, int64_t image, int64_t block, int64_t first, int64_t end) const;
  void run_all() const;
};

// Tiles of A: [tap][tile of pairs][32 output channels][16 pairs], block after block.
void PlaneCorrelation::pack_weights(int64_t block, int64_t tile) const {
  const int64_t first = tile * amx::kTile, n = std::min(amx::kTile, plan.channels - first);
  float* const by_tap = thread_scratch<float>(taps() * n * kRows, 0);
  w.pack(plan.parts[0].tap, block * kRows * w.column_stride, std::min(kRows, rows - block * kRows), kRows, first, n,
         by_tap);
  at_level([&]<int Lanes>() AMP_INLINE {
    for (int64_t t = 0; t < taps(); ++t) {
      float* const to = weights + ((block * taps() + t) * depth() + tile) * kPanel;
      for (int64_t r = 0; r < kRows; r += 16) {
        transpose_block<Lanes>(by_tap + t * n * kRows + r, kRows, n, 16,
                               [&](int64_t i) AMP_INLINE { return to + (r + i) * amx::kTile; });
      }
    }
  });
}

void PlaneCorrelation::pack_plane(int64_t image, int64_t pair, float* to) const {
  const auto& [d, h, w_axis] = plan.axis;
  const int64_t size = plan.source_size(), columns = w_axis.source, second = 2 * pair + 1;
  if (pair >= plan.channels) return std::fill_n(to, plane, 0.0f), void();
  const auto* const low = static_cast<const BFloat16*>(source.data.at((image * source.channels + 2 * pair) * size));
  const BFloat16* const high = second < source.channels ? low + size : nullptr;
  at_level([&]<int Lanes>() AMP_INLINE {
    float* end = to;  // of what is written
    for (int64_t y = std::max<int64_t>(0, -h.origin); y < h.source && y + h.origin < h.length; ++y) {
      // Rows and columns may be cut off, where a pad is negative.
      const int64_t from = std::max<int64_t>(0, -w_axis.origin), n = std::min(columns, width - w_axis.origin) - from;
      float* const at = to + (y + h.origin) * width + w_axis.origin + from;
      if (n <= 0) continue;
      std::fill(end, at, 0.0f);
      const int64_t first = y * columns + from;
      bf16_pairs::zip<Lanes>(low + first, high ? high + first : nullptr, n, at);
      end = at + n;
    }
    std::fill(end, to + plane, 0.0f);
  });
}

struct Shifted {  // tiles of B
  const char* pixel;
  const int64_t* offset;
  int64_t row;

  const char* at(int64_t v, int64_t g) const { return pixel + offset[g] + v * 4 * amx::kTile; }
  int64_t row_bytes(int64_t, int64_t) const { return row; }
};

// A block's channels of pixels [first, first + kPlaneColumns).
void PlaneCorrelation::run_task(int64_t image, const float* packed, int64_t block, int64_t first) const {
  alignas(64) float sums[kRows * kPlaneColumns];
  const int64_t end = std::min(first + kPlaneColumns, pixels()), groups = taps() * depth();
  const amx::Regular a{reinterpret_cast<const char*>(weights + block * groups * kPanel), 4 * amx::kTile, 4 * kPanel,
                       2 * kPanel};
  const bool both = rows - block * kRows > amx::kTile;
  {
    const amx::TileScope scope(true);
    for (int64_t j = first; j < end; j += 2 * amx::kTile) {
      const Shifted b{reinterpret_cast<const char*>(packed + j), offset.data(), 4 * plane};
      float* const to = sums + j - first;
      if (both)
        amx::multiply<2, 2>(groups, a, b, to, 4 * kPlaneColumns, false);
      else
        amx::multiply<1, 2>(groups, a, b, to, 4 * kPlaneColumns, false);
    }
  }
  at_level([&]<int Lanes>() AMP_INLINE { store<Lanes>(sums, image, block, first, end); });
}

template <int Lanes>
AMP_INLINE inline void PlaneCorrelation::store(const float* sums, int64_t image, int64_t block, int64_t first,
                                               int64_t end) const {
  for (int64_t r = 0; r < std::min(kRows, rows - block * kRows); ++r) {
    const int64_t channel = block * kRows + r;
    const float add = bias ? bias[channel] : 0.0f;
    for (int64_t y = first / width; y * width < end; ++y) {
      const int64_t from = std::max(first, y * width), n = std::min(end, y * width + out[2]) - from;
      if (n <= 0) continue;
      alignas(64) float row[kPlaneColumns];
      const float* const sum = sums + r * kPlaneColumns + from - first;
      for (int64_t i = 0; i < n; ++i) row[i] = sum[i] + add;
      const int64_t to = (image * rows + channel) * out_size() + y * out[2] + from - y * width;
      if (target.dtype == DType::bf16)
        bf16_pairs::store<Lanes>(row, n, static_cast<BFloat16*>(target.at(to)));
      else
        std::copy_n(row, n, static_cast<float*>(target.at(to)));
    }
  }
}

void PlaneCorrelation::run_all() const {
  parallel_for(blocks() * depth(), [&](int64_t i) { pack_weights(i / depth(), i % depth()); });
  const int64_t ranges = (pixels() + kPlaneColumns - 1) / kPlaneColumns;
  for (int64_t at = 0; at < images; at += together) {
    const int64_t n = std::min(together, images - at);
    parallel_ranges(n * channels, 4, [&](int64_t b, int64_t e) {
      for (int64_t i = b; i < e; ++i) pack_plane(at + i / channels, i % channels, planes + i * plane);
    });
    parallel_for(n * ranges * blocks(), [&](int64_t i) {
      const int64_t image = i / (ranges * blocks());
      run_task(at + image, planes + image * image_floats(), i % blocks(), i / blocks() % ranges * kPlaneColumns);
    });
  }
}

}  // namespace

bool conv_planes_fits(const Correlation& c) {
  if (!cpu_has_amx() || !c.w.pairs() || c.groups != 1 || c.plan.parts.size() != 1) return false;
  const auto& axis = c.plan.axis;
  const ChannelPlan::Part& part = c.plan.parts[0];
  for (size_t i = 0; i < 3; ++i) {
    if (axis[i].stride != 1 || part.step[i] != 1 || part.start[i] != 0 || part.count[i] != c.out[i]) return false;
  }
  return axis[0].length == 1 && axis[0].origin == 0 && !part.tap.empty() && c.out[1] * axis[2].length >= kPlaneColumns;
}

Kernel conv_planes(Correlation c, Carver& carve) {
  PlaneCorrelation p{std::move(c)};
  p.width = p.plan.axis[2].length;
  p.channels = round_up(p.plan.channels, amx::kTile);
  // Tiles read behind the last pixel. Planes are an odd number of lines apart: their rows do not share sets of the
  // nearest cache.
  p.plane = round_up(p.plan.axis[1].length * p.width + 2 * amx::kTile, 32) + 16;
  for (const int64_t tap : p.plan.parts[0].offset) {
    for (int64_t tile = 0; tile < p.depth(); ++tile)
      p.offset.push_back(4 * (tile * amx::kTile * p.plane + tap / p.plan.pitch));
  }
  p.together = std::clamp<int64_t>(kImages / p.image_floats(), 1, p.images);
  p.weights = carve.take<float>(p.blocks() * p.taps() * p.depth() * kPanel);
  p.planes = carve.take<float>(p.together * p.image_floats());
  return [s = std::make_shared<const PlaneCorrelation>(std::move(p))] { s->run_all(); };
}

}  // namespace amp
