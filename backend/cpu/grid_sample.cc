// GridSample and its gradients on the CPU for 1 to 3 spatial dimensions. The taps of each point (backend/grid_taps.h)
// are computed per dimension. The weight of a source pixel is the product of one tap's weight per dimension.

#include "backend/cpu/grid_sample.h"

#include "backend/cpu/operands.h"
#include "backend/grid_taps.h"

namespace amp {

namespace {

struct Shape {
  int64_t batch, channels, in, out;  // in, out: number of spatial positions of x and of y
  Dims size;
  SampleMode mode;
  SamplePadding padding;
  bool align;
  Shape(const Dims& x, const Dims& grid, const Attrs& a)
      : batch(x[0]),
        channels(x[1]),
        size(x.begin() + 2, x.end()),
        mode(static_cast<SampleMode>(a.i("mode", kLinear))),
        padding(static_cast<SamplePadding>(a.i("padding", kZeros))),
        align(a.i("align", 0) != 0) {
    in = numel(size);
    out = 1;
    for (size_t i = 1; i + 1 < grid.size(); ++i) out *= grid[i];
  }
};

// Calls f(source offset, taps used in each dimension) for every source pixel of an output that is not padding.
template <class T, class F>
void sources(const Shape& s, const SampleTaps<T>* t, F f) {
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
void all_taps(const Shape& s, const T* point, SampleTaps<T>* t) {
  const size_t d = s.size.size();
  for (size_t k = 0; k < d; ++k) t[k] = sample_taps(point[d - 1 - k], s.size[k], s.mode, s.padding, s.align);
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
        SampleTaps<T> t[3];
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
    // One thread per image, because several outputs may add to one element of dx.
    parallel_for(s.batch, [&](int64_t n) {
      std::fill_n(dx + n * s.channels * s.in, s.channels * s.in, T(0));
      for (int64_t p = 0; p < s.out; ++p) {
        const int64_t at = (n * s.out + p) * static_cast<int64_t>(d);
        SampleTaps<T> t[3];
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

Kernel grid_sample(const KernelArgs& a, Carver& c) {
  return in_double(a) ? forward<double>(a, c) : forward<float>(a, c);
}
Kernel grid_sample_grad(const KernelArgs& a, Carver& c) {
  return in_double(a) ? backward<double>(a, c) : backward<float>(a, c);
}

}  // namespace amp
