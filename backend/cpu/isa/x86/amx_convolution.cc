// Convolution sums with AMX tiles (amx_convolution.h). The depth of a product (the dimension that is summed over) is
// (tap, channel), in groups of 16 pairs of bf16. Groups that are not contiguous in memory are gathered into scratch.

#include "backend/cpu/isa/x86/amx_convolution.h"

#include <algorithm>

#include "backend/cpu/isa/x86/amx_tiles.h"

namespace amp::amx {

namespace {

constexpr int64_t kRowBytes = 4 * kTile;
constexpr int64_t kPixels = cpu::TileUnit::kPixels, kMostPixels = cpu::TileUnit::kMostPixels,
                  kMostColumns = cpu::TileUnit::kMostColumns;
constexpr int64_t kGroups = 16;  // groups of the depth at a time; 32 rows of them fit into the L1 cache

const char* bytes(const float* x) { return reinterpret_cast<const char*>(x); }

// Returns the distance between neighboring pixels if the 16 pixels are equally spaced, otherwise 0.
int64_t distance(const int64_t* base) {
  const int64_t step = base[1] - base[0];
  for (int64_t i = 2; i < kTile; ++i) {
    if (base[i] - base[i - 1] != step) return 0;
  }
  return step;
}

// Copies `vectors` vectors of 16 elements from each of 16 pixels to rows `to_row` floats apart.
[[gnu::target("avx512f")]] void gather(const float* from, const int64_t* base, int64_t vectors, float* to,
                                       int64_t to_row) {
  for (int64_t i = 0; i < kTile; ++i) {
    for (int64_t v = 0; v < vectors; ++v)
      _mm512_storeu_ps(to + i * to_row + v * kTile, _mm512_loadu_ps(from + base[i] + v * kTile));
  }
}

// Two adjacent tiles of 16 pixels, whose groups of the depth may be at any address: first[tile][group].
struct Pixels {
  const char* first[2][kGroups];
  int64_t row[2];

  const char* at(int64_t t, int64_t g) const { return first[t][g]; }
  int64_t row_bytes(int64_t t, int64_t) const { return row[t]; }
};
// Rows of weights. The last group may be a zero-padded copy.
struct Weights {
  const char* first;
  int64_t row, last;  // last: index of the group that is a copy, or -1
  const char* copy;

  const char* at(int64_t v, int64_t g) const { return (g == last ? copy : first + g * kTile * row) + v * kRowBytes; }
  int64_t row_bytes(int64_t, int64_t) const { return row; }
};
// Groups of 16 pixels, as tiles of B. Adjacent tiles of a group are 16 columns apart.
struct PixelGroups {
  const char* first[kMostPixels / kTile];
  int64_t row[kMostPixels / kTile];
  int64_t column;  // offset of the first column in bytes

  const char* at(int64_t v, int64_t g) const { return first[g] + column + v * kRowBytes; }
  int64_t row_bytes(int64_t, int64_t g) const { return row[g]; }
};

// Calls fn<V>(column) for one or two tiles of columns at a time.
template <class Fn>
void by_column_tiles(int64_t width, const Fn& fn) {
  int64_t j = 0;
  for (; j + 2 * kTile <= width; j += 2 * kTile) fn.template operator()<2>(j);
  if (j < width) fn.template operator()<1>(j);
}

// Copies elements [begin, end) of a pixel's depth, (tap, channel), to groups of 16 elements that are `to_group`
// apart.
void gather_depth(const float* pixel, const int64_t* offset, int64_t channels, int64_t begin, int64_t end, float* to,
                  int64_t to_group) {
  for (int64_t s = begin; s < end;) {
    const int64_t c = s % channels, at = s - begin, n = std::min({channels - c, kTile - at % kTile, end - s});
    std::copy_n(pixel + offset[s / channels] + c, n, to + at / kTile * to_group + at % kTile);
    s += n;
  }
  if (const int64_t used = (end - begin) % kTile; used > 0)
    std::fill_n(to + (end - begin) / kTile * to_group + used, kTile - used, 0.0f);
}

}  // namespace

void correlate(int64_t width, const float* image, const int64_t* base, const int64_t* offset, int64_t taps,
               int64_t channels, const float* w, float* sums) {
  alignas(64) float copy[kGroups][kPixels][kTile], last_weights[kTile * kMostColumns];
  const int64_t steps = taps * channels, block = kGroups * kTile;
  const bool whole = channels % kTile == 0;  // true if each group belongs to one tap
  const int64_t apart[2] = {whole ? distance(base) : 0, whole ? distance(base + kTile) : 0};
  for (int64_t begin = 0; begin < steps; begin += block) {
    const int64_t end = std::min(steps, begin + block), groups = (end - begin + kTile - 1) / kTile;
    Pixels a;
    for (int64_t t = 0; t < 2; ++t) {
      a.row[t] = apart[t] != 0 ? 4 * apart[t] : kRowBytes;
      for (int64_t g = 0; g < groups; ++g) {
        a.first[t][g] = bytes(copy[g][t * kTile]);
        if (!whole) continue;
        const int64_t s = begin + g * kTile;
        const float* const from = image + offset[s / channels] + s % channels;
        if (apart[t] != 0)
          a.first[t][g] = bytes(from + base[t * kTile]);
        else
          gather(from, base + t * kTile, 1, copy[g][t * kTile], kTile);
      }
    }
    for (int64_t i = 0; !whole && i < kPixels; ++i)
      gather_depth(image + base[i], offset, channels, begin, end, copy[0][i], kPixels * kTile);
    Weights b{bytes(w + begin * width), 4 * width, -1, bytes(last_weights)};
    // Pads the last group with zeros, because memory after the weights may contain NaN bits.
    if (const int64_t used = (end - begin) % kTile; used > 0) {
      b.last = groups - 1;
      std::copy_n(w + (end - used) * width, used * width, last_weights);
      std::fill_n(last_weights + used * width, (kTile - used) * width, 0.0f);
    }
    by_column_tiles(width, [&]<int V>(int64_t j) {
      Weights part = b;
      part.first += 4 * j, part.copy += 4 * j;
      multiply<2, V>(groups, a, part, sums + j, 4 * width, true);
    });
  }
}

void add_products(int64_t rows, int64_t columns, const float* grads, const float* x, const int64_t* base,
                  int64_t pixels, float* sums) {
  alignas(64) float copy[kMostPixels][kMostColumns];
  PixelGroups b;
  const int64_t groups = (pixels + kTile - 1) / kTile;
  for (int64_t g = 0; g < groups; ++g) {
    const int64_t here = std::min(kTile, pixels - g * kTile), *at = base + g * kTile;
    const int64_t apart = here == kTile ? distance(at) : 0;
    b.first[g] = apart != 0 ? bytes(x + at[0]) : bytes(copy[g * kTile]);
    b.row[g] = apart != 0 ? 4 * apart : 4 * kMostColumns;
    if (apart != 0) continue;
    if (here == kTile) {
      gather(x, at, columns / kTile, copy[g * kTile], kMostColumns);
      continue;
    }
    for (int64_t i = 0; i < kTile; ++i) {
      if (i < here)
        std::copy_n(x + at[i], columns, copy[g * kTile + i]);
      else
        std::fill_n(copy[g * kTile + i], columns, 0.0f);
    }
  }
  for (int64_t r = 0; r < rows; r += 2 * kTile) {
    const Regular a{bytes(grads + r * kTile), kRowBytes, rows * kRowBytes, kTile * kRowBytes};
    by_column_tiles(columns, [&]<int V>(int64_t j) {
      b.column = 4 * j;
      float* const to = sums + r * columns + j;
      if (r + 2 * kTile <= rows)
        multiply<2, V>(groups, a, b, to, 4 * columns, true);
      else
        multiply<1, V>(groups, a, b, to, 4 * columns, true);
    });
  }
}

}  // namespace amp::amx
