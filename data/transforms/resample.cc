// Implements Pillow's Image.resize: for each axis, the weights of all output pixels are computed once as integers
// (precomputed taps), then applied to every row. The fixed-point arithmetic repeats Pillow's, so that results are equal
// bit for bit.
#include "data/transforms/resample.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace amp {

namespace {

constexpr int kBits = 32 - 8 - 2;  // bits of the coefficients' fraction

struct Filter {
  double (*weight)(double);
  double support;
};

double sinc(double x) { return x == 0 ? 1 : std::sin(x * M_PI) / (x * M_PI); }

double box(double x) { return x > -0.5 && x <= 0.5 ? 1 : 0; }
double triangle(double x) { return std::max(0.0, 1 - std::abs(x)); }
double hamming(double x) {
  x = std::abs(x);
  if (x == 0) return 1;
  if (x >= 1) return 0;
  x *= M_PI;
  return std::sin(x) / x * (0.54 + 0.46 * std::cos(x));
}
double cubic(double x) {  // evaluates Keys' cubic convolution kernel with a = -0.5
  constexpr double a = -0.5;
  x = std::abs(x);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}
double lanczos(double x) { return -3 <= x && x < 3 ? sinc(x) * sinc(x / 3) : 0; }

Filter filter_of(Interpolation i) {
  switch (i) {
    case Interpolation::box:
      return {box, 0.5};
    case Interpolation::hamming:
      return {hamming, 1};
    case Interpolation::bicubic:
      return {cubic, 2};
    case Interpolation::lanczos:
      return {lanczos, 3};
    case Interpolation::nearest:
    case Interpolation::bilinear:
      break;
  }
  return {triangle, 1};
}

// The weights along one axis. Output pixel i reads count[i] input pixels from index first[i] on. Its weights begin at
// index i * most in `weights`.
struct Taps {
  size_t most = 0;
  std::vector<int64_t> first, count;
  std::vector<int32_t> weights;
};

Taps taps_of(int64_t in, int64_t out, const Filter& filter) {
  const double scale = static_cast<double>(in) / static_cast<double>(out), wide = std::max(scale, 1.0);
  const double support = filter.support * wide, sharp = 1.0 / wide;
  Taps t;
  t.most = static_cast<size_t>(std::ceil(support)) * 2 + 1;
  t.weights.resize(t.most * static_cast<size_t>(out));
  std::vector<double> w(t.most);
  for (int64_t i = 0; i < out; ++i) {
    const double center = (static_cast<double>(i) + 0.5) * scale;
    const int64_t first = std::max<int64_t>(0, static_cast<int64_t>(center - support + 0.5));
    const int64_t count = std::min(in, static_cast<int64_t>(center + support + 0.5)) - first;
    double sum = 0;
    for (int64_t k = 0; k < count; ++k) {
      w[static_cast<size_t>(k)] = filter.weight((static_cast<double>(k + first) - center + 0.5) * sharp);
      sum += w[static_cast<size_t>(k)];
    }
    for (int64_t k = 0; k < count; ++k) {
      double v = w[static_cast<size_t>(k)];
      if (sum != 0) v /= sum;
      t.weights[static_cast<size_t>(i) * t.most + static_cast<size_t>(k)] =
          static_cast<int32_t>((v < 0 ? -0.5 : 0.5) + v * (1 << kBits));
    }
    t.first.push_back(first);
    t.count.push_back(count);
  }
  return t;
}

uint8_t clipped(int32_t sum) { return static_cast<uint8_t>(std::clamp(sum >> kBits, 0, 255)); }

template <int C>
void row_across(const uint8_t* in, const Taps& t, uint8_t* out, int64_t width) {
  for (int64_t x = 0; x < width; ++x) {
    const int32_t* const w = t.weights.data() + static_cast<size_t>(x) * t.most;
    const uint8_t* p = in + t.first[static_cast<size_t>(x)] * C;
    const int64_t n = t.count[static_cast<size_t>(x)];
    std::array<int32_t, C> sum;
    sum.fill(1 << (kBits - 1));
    for (int64_t k = 0; k < n; ++k, p += C) {
      for (int c = 0; c < C; ++c) sum[static_cast<size_t>(c)] += p[c] * w[k];
    }
    for (int c = 0; c < C; ++c) out[x * C + c] = clipped(sum[static_cast<size_t>(c)]);
  }
}

Image across(const Image& in, int64_t width, const Filter& filter) {
  const Taps t = taps_of(in.width, width, filter);
  Image out(width, in.height, in.channels);
  for (int64_t y = 0; y < in.height; ++y) {
    if (in.channels == 3) {
      row_across<3>(in.row(y), t, out.row(y), width);
    } else {
      row_across<1>(in.row(y), t, out.row(y), width);
    }
  }
  return out;
}

Image down(const Image& in, int64_t height, const Filter& filter) {
  const Taps t = taps_of(in.height, height, filter);
  Image out(in.width, height, in.channels);
  const auto row = static_cast<size_t>(in.width * in.channels);
  std::vector<int32_t> sums(row);
  for (int64_t y = 0; y < height; ++y) {
    std::fill(sums.begin(), sums.end(), 1 << (kBits - 1));
    for (int64_t k = 0; k < t.count[static_cast<size_t>(y)]; ++k) {
      const int32_t w = t.weights[static_cast<size_t>(y) * t.most + static_cast<size_t>(k)];
      const uint8_t* const from = in.row(t.first[static_cast<size_t>(y)] + k);
      for (size_t i = 0; i < row; ++i) sums[i] += from[i] * w;
    }
    uint8_t* const to = out.row(y);
    for (size_t i = 0; i < row; ++i) to[i] = clipped(sums[i]);
  }
  return out;
}

// Returns the nearest input pixel of each output pixel. Positions are accumulated instead of multiplied, as in Pillow.
std::vector<int64_t> nearest_places(int64_t in, int64_t out) {
  const double step = static_cast<double>(in) / static_cast<double>(out);
  std::vector<int64_t> places;
  double at = step * 0.5;
  for (int64_t i = 0; i < out; ++i, at += step) places.push_back(std::min(in - 1, static_cast<int64_t>(at)));
  return places;
}

template <class T>
Pixels<T> by_nearest(const Pixels<T>& in, int64_t height, int64_t width) {
  const std::vector<int64_t> xs = nearest_places(in.width, width), ys = nearest_places(in.height, height);
  Pixels<T> out(width, height, in.channels);
  for (int64_t y = 0; y < height; ++y) {
    const T* const from = in.row(ys[static_cast<size_t>(y)]);
    for (int64_t x = 0; x < width; ++x)
      std::copy_n(from + xs[static_cast<size_t>(x)] * in.channels, in.channels, out.row(y) + x * in.channels);
  }
  return out;
}

}  // namespace

Interpolation interpolation_of(const Arguments& arguments) {
  constexpr std::array<std::pair<std::string_view, Interpolation>, 6> names{{{"nearest", Interpolation::nearest},
                                                                             {"bilinear", Interpolation::bilinear},
                                                                             {"bicubic", Interpolation::bicubic},
                                                                             {"box", Interpolation::box},
                                                                             {"hamming", Interpolation::hamming},
                                                                             {"lanczos", Interpolation::lanczos}}};
  for (const auto& [name, value] : names) {
    if (arguments.text("interpolation") == name) return value;
  }
  arguments.refuse("interpolation", "one of nearest, bilinear, bicubic, box, hamming, lanczos");
}

Image resized(const Image& in, int64_t height, int64_t width, Interpolation interpolation) {
  if (in.height == height && in.width == width) return in;
  if (interpolation == Interpolation::nearest) return by_nearest(in, height, width);
  const Filter filter = filter_of(interpolation);
  if (in.width == width) return down(in, height, filter);
  const Image wide = across(in, width, filter);
  return in.height == height ? wide : down(wide, height, filter);
}

Mask resized_nearest(const Mask& in, int64_t height, int64_t width) { return by_nearest(in, height, width); }

void resize(ImageSample& s, int64_t height, int64_t width, Interpolation interpolation) {
  s.image = resized(s.image, height, width, interpolation);
  if (s.mask) s.mask = resized_nearest(*s.mask, height, width);
}

}  // namespace amp
