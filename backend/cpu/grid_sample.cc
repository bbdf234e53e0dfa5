#include "backend/cpu/grid_sample.h"

#include <algorithm>
#include <cmath>

#include "backend/cpu/operands.h"

namespace amp {

namespace {

enum Mode { kNearest, kLinear, kCubic };
enum Padding { kZeros, kBorder, kReflection };

// Sources of one output along one dimension: index (-1: a zero), weight, and the weight's slope in the grid's coordinate.
template <class T>
struct Taps {
  int n = 0;
  int64_t index[4];
  T weight[4], slope[4];
};

// Mirrors v into [low, high]; sign gets the slope.
template <class T>
T reflect(T v, T low, T high, T& sign) {
  sign = T(1);
  const T range = high - low;
  if (range <= T(0)) {
    sign = T(0);
    return low;
  }
  if (v >= low && v <= high) return v;
  const bool below = v < low;
  const T past = below ? low - v : v - high, turns = std::floor(past / range), rest = past - turns * range;
  const bool even = std::fmod(turns, T(2)) == T(0);
  sign = even ? T(-1) : T(1);
  return even == below ? low + rest : high - rest;
}

template <class T>
void cubic(T r, T* w, T* s) {  // Keys' kernel with a = -0.75 at distances 1 + r, r, 1 - r, 2 - r
  constexpr T a = T(-0.75);
  const auto near = [&](T d) { return ((a + T(2)) * d - (a + T(3))) * d * d + T(1); };
  const auto far = [&](T d) { return ((a * d - T(5) * a) * d + T(8) * a) * d - T(4) * a; };
  const auto near_slope = [&](T d) { return (T(3) * (a + T(2)) * d - T(2) * (a + T(3))) * d; };
  const auto far_slope = [&](T d) { return (T(3) * a * d - T(10) * a) * d + T(8) * a; };
  w[0] = far(r + T(1)), w[1] = near(r), w[2] = near(T(1) - r), w[3] = far(T(2) - r);
  s[0] = far_slope(r + T(1)), s[1] = near_slope(r), s[2] = -near_slope(T(1) - r), s[3] = -far_slope(T(2) - r);
}

template <class T>
Taps<T> taps(T g, int64_t n, Mode mode, Padding padding, bool align) {
  const T size = static_cast<T>(n), low = align ? T(0) : T(-0.5), high = align ? size - T(1) : size - T(0.5);
  T per_unit = align ? (size - T(1)) / T(2) : size / T(2);
  T x = align ? (g + T(1)) / T(2) * (size - T(1)) : ((g + T(1)) * size - T(1)) / T(2);
  if (!(std::abs(x) < T(1e9))) x = padding == kZeros ? T(-1e9) : T(0);  // NaN or infinite: outside
  if (mode == kNearest) x = std::nearbyint(x);
  if (x < low || x > high) {
    if (padding == kBorder) {
      x = std::clamp(x, T(0), size - T(1));
      per_unit = T(0);
    } else if (padding == kReflection) {
      T sign;
      x = reflect(x, low, high, sign);
      per_unit *= sign;
    }
  }
  Taps<T> t;
  int64_t first = static_cast<int64_t>(std::floor(x));
  const T r = x - static_cast<T>(first);
  if (mode == kNearest) {
    t.n = 1;
    t.weight[0] = T(1);
    t.slope[0] = T(0);
  } else if (mode == kLinear) {
    t.n = 2;
    t.weight[0] = T(1) - r;
    t.weight[1] = r;
    t.slope[0] = T(-1);
    t.slope[1] = T(1);
  } else {
    t.n = 4;
    cubic(r, t.weight, t.slope);
    --first;
  }
  for (int i = 0; i < t.n; ++i) {
    t.slope[i] *= per_unit;
    int64_t at = first + i;
    T sign;
    if (padding == kBorder) at = std::clamp<int64_t>(at, 0, n - 1);
    else if (padding == kReflection) at = std::clamp<int64_t>(static_cast<int64_t>(reflect(static_cast<T>(at), low, high, sign)), 0, n - 1);
    t.index[i] = at >= 0 && at < n ? at : -1;
  }
  return t;
}

struct Shape {
  int64_t batch, channels, in, out;  // spatial elements
  Dims size;
  Mode mode;
  Padding padding;
  bool align;
  Shape(const Dims& x, const Dims& grid, const Attrs& a)
      : batch(x[0]), channels(x[1]), size(x.begin() + 2, x.end()), mode(static_cast<Mode>(a.i("mode", kLinear))),
        padding(static_cast<Padding>(a.i("padding", kZeros))), align(a.i("align", 0) != 0) {
    in = numel(size);
    out = 1;
    for (size_t i = 1; i + 1 < grid.size(); ++i) out *= grid[i];
  }
};

// Calls f(source offset, taps used in each dimension) for every source of an output that is no padding.
template <class T, class F>
void sources(const Shape& s, const Taps<T>* t, F f) {
  const size_t d = s.size.size();
  int total = 1;
  for (size_t k = 0; k < d; ++k) total *= t[k].n;
  for (int i = 0; i < total; ++i) {
    int which[3] = {0, 0, 0}, rest = i;
    int64_t offset = 0;
    bool real = true;
    for (size_t k = d; k-- > 0;) {
      which[k] = rest % t[k].n;
      rest /= t[k].n;
    }
    for (size_t k = 0; k < d && real; ++k) {
      real = t[k].index[which[k]] >= 0;
      offset = offset * s.size[k] + t[k].index[which[k]];
    }
    if (real) f(offset, which);
  }
}
template <class T>
void all_taps(const Shape& s, const T* point, Taps<T>* t) {
  const size_t d = s.size.size();
  for (size_t k = 0; k < d; ++k) t[k] = taps(point[d - 1 - k], s.size[k], s.mode, s.padding, s.align);
}

template <class T>
Kernel forward(const KernelArgs& a, Carver& c) {
  const Operands<T> x(a, c);
  const Shape s(a.in[0].dims, a.in[1].dims, a.attrs());
  const size_t d = s.size.size();
  if (c.measuring()) return {};
  return [=] {
    x.load();
    const T *image = x.input(0), *grid = x.input(1);
    T* const y = x.output(0);
    parallel_ranges(s.batch * s.out, 2048 / (s.channels + 1) + 1, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const int64_t n = r / s.out, p = r % s.out;
        Taps<T> t[3];
        all_taps(s, grid + r * static_cast<int64_t>(d), t);
        for (int64_t k = 0; k < s.channels; ++k) y[(n * s.channels + k) * s.out + p] = T(0);
        sources(s, t, [&](int64_t offset, const int* which) {
          T w = T(1);
          for (size_t k = 0; k < d; ++k) w *= t[k].weight[which[k]];
          for (int64_t k = 0; k < s.channels; ++k) {
            y[(n * s.channels + k) * s.out + p] += w * image[(n * s.channels + k) * s.in + offset];
          }
        });
      }
    });
    x.store();
  };
}

template <class T>
Kernel backward(const KernelArgs& a, Carver& c) {
  const Operands<T> x(a, c);
  const Shape s(a.in[0].dims, a.in[1].dims, a.attrs());
  const size_t d = s.size.size();
  if (c.measuring()) return {};
  return [=] {
    x.load();
    const T *image = x.input(0), *grid = x.input(1), *dy = x.input(2);
    T *const dx = x.output(0), *const dgrid = x.output(1);
    parallel_for(s.batch, [&](int64_t n) {  // an image has one writer
      std::fill_n(dx + n * s.channels * s.in, s.channels * s.in, T(0));
      for (int64_t p = 0; p < s.out; ++p) {
        const int64_t at = (n * s.out + p) * static_cast<int64_t>(d);
        Taps<T> t[3];
        all_taps(s, grid + at, t);
        T slope[3] = {0, 0, 0};
        sources(s, t, [&](int64_t offset, const int* which) {
          T w = T(1), dot = T(0);
          for (size_t k = 0; k < d; ++k) w *= t[k].weight[which[k]];
          for (int64_t k = 0; k < s.channels; ++k) {
            const T g = dy[(n * s.channels + k) * s.out + p];
            dx[(n * s.channels + k) * s.in + offset] += w * g;
            dot += g * image[(n * s.channels + k) * s.in + offset];
          }
          for (size_t k = 0; k < d; ++k) {
            T v = t[k].slope[which[k]];
            for (size_t j = 0; j < d; ++j) v *= j == k ? T(1) : t[j].weight[which[j]];
            slope[k] += v * dot;
          }
        });
        for (size_t k = 0; k < d; ++k) dgrid[at + static_cast<int64_t>(d - 1 - k)] = slope[k];
      }
    });
    x.store();
  };
}

}  // namespace

Kernel grid_sample(const KernelArgs& a, Carver& c) { return in_double(a) ? forward<double>(a, c) : forward<float>(a, c); }
Kernel grid_sample_grad(const KernelArgs& a, Carver& c) { return in_double(a) ? backward<double>(a, c) : backward<float>(a, c); }

}  // namespace amp
