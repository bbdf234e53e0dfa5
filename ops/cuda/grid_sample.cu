// The kernels of GridSample and GridSampleGrad (ops/grid_sample.cc).
//
// Many outputs may read the same input element; which outputs do depends on the grid's values. The gradient of x is
// therefore summed in 64-bit fixed point: integer additions give the same sum in every order of the threads, which
// float atomics do not. No sort is needed.
//
// Each plane (one channel of an image) has its own fixed-point unit (the gradient that integer 1 stands for): the
// largest |dy| of the plane times 2^-(61 - bits). 2^bits is at least the sum of all weights that can be added to one
// element, so no sum overflows. For a million outputs the error is 2^-37 of the plane's largest gradient, far below
// fp32's. Infinities and NaN have no fixed-point form: each element that receives one is flagged and becomes NaN.
#include "backend/cpu/workspace.h"
#include "backend/cuda/rows.cuh"
#include "backend/grid_taps.h"

namespace amp::cuda {
namespace {

constexpr int kChannels = 16;  // channels per thread

#ifdef __CUDACC__
DEV void add_whole(int64_t* to, int64_t v) {
  atomicAdd(reinterpret_cast<unsigned long long*>(to), static_cast<unsigned long long>(v));
}
#else
DEV void add_whole(int64_t* to, int64_t v) { *to += v; }
#endif

struct Shape {
  int64_t batch, channels, in, out;  // in, out: number of spatial positions of x and of y
  int rank;
  int64_t size[3] = {1, 1, 1};
  SampleMode mode;
  SamplePadding padding;
  bool align;

  Shape(const Dims& x, const Dims& grid, const Attrs& a)
      : batch(x[0]),
        channels(x[1]),
        in(1),
        out(1),
        rank(static_cast<int>(x.size()) - 2),
        mode(static_cast<SampleMode>(a.i("mode", kLinear))),
        padding(static_cast<SamplePadding>(a.i("padding", kZeros))),
        align(a.i("align", 0) != 0) {
    for (int k = 0; k < rank; ++k) {
      size[k] = x[static_cast<size_t>(k) + 2];
      in *= size[k];
      out *= grid[static_cast<size_t>(k) + 1];
    }
  }
  int64_t groups() const { return (channels + kChannels - 1) / kChannels; }

  DEV void taps(const Ref& grid, int64_t point, SampleTaps<float>* t) const {
    for (int k = 0; k < rank; ++k)
      t[k] = sample_taps(load<float>(grid, point * rank + (rank - 1 - k)), size[k], mode, padding, align);
  }
  // Calls f(offset, index of the tap in each dimension) for every input element that one output reads. Taps in the
  // padding are skipped.
  template <class F>
  DEV void sources(const SampleTaps<float>* t, F f) const {
    const int n1 = rank > 1 ? t[1].n : 1, n2 = rank > 2 ? t[2].n : 1;
    for (int i = 0; i < t[0].n; ++i) {
      for (int j = 0; j < n1; ++j) {
        for (int k = 0; k < n2; ++k) {
          const int which[3] = {i, j, k};
          int64_t offset = 0;
          bool real = true;
          for (int d = 0; d < rank; ++d) {
            const int64_t at = t[d].index[which[d]];
            real = real && at >= 0;
            offset = offset * size[d] + at;
          }
          if (real) f(offset, which);
        }
      }
    }
  }
  DEV float weight(const SampleTaps<float>* t, const int* which) const {
    float w = 1;
    for (int d = 0; d < rank; ++d) w *= t[d].weight[which[d]];
    return w;
  }
};

// The work of the thread with index i: one output position of an image, for a group of channels.
struct Item {
  int64_t image, point, first, last;  // the channels are [first, last)
  DEV Item(const Shape& s, int64_t i) {
    const int64_t row = i / s.out;
    point = i - row * s.out;
    image = row / ((s.channels + kChannels - 1) / kChannels);
    first = (row - image * ((s.channels + kChannels - 1) / kChannels)) * kChannels;
    last = first + kChannels < s.channels ? first + kChannels : s.channels;
  }
};

struct Forward {
  static constexpr int min_blocks = 2;
  Ref x, grid, y;
  Shape s;
  DEV void operator()(int64_t i) const {
    const Item at(s, i);
    SampleTaps<float> t[3];
    s.taps(grid, at.image * s.out + at.point, t);
    float sum[kChannels] = {};
    s.sources(t, [&](int64_t offset, const int* which) {
      const float w = s.weight(t, which);
      for (int k = 0; k < kChannels; ++k) {
        const int64_t c = at.first + k;
        if (c < at.last) sum[k] += w * load<float>(x, (at.image * s.channels + c) * s.in + offset);
      }
    });
    for (int k = 0; k < kChannels; ++k) {
      const int64_t c = at.first + k;
      if (c < at.last) store(y, (at.image * s.channels + c) * s.out + at.point, sum[k]);
    }
  }
};

// Computes the gradient of the grid. One thread computes one grid point over all channels.
struct GridGrad {
  Ref x, grid, dy, dgrid;
  Shape s;
  DEV void operator()(int64_t point) const {
    const int64_t image = point / s.out, p = point - image * s.out;
    SampleTaps<float> t[3];
    s.taps(grid, point, t);
    float slope[3] = {0, 0, 0};
    s.sources(t, [&](int64_t offset, const int* which) {
      float dot = 0;
      for (int64_t c = 0; c < s.channels; ++c) {
        const int64_t plane = image * s.channels + c;
        dot += load<float>(dy, plane * s.out + p) * load<float>(x, plane * s.in + offset);
      }
      for (int k = 0; k < s.rank; ++k) {
        float v = t[k].slope[which[k]];
        for (int j = 0; j < s.rank; ++j) v *= j == k ? 1.0f : t[j].weight[which[j]];
        slope[k] += v * dot;
      }
    });
    for (int k = 0; k < s.rank; ++k) store(dgrid, point * s.rank + (s.rank - 1 - k), slope[k]);
  }
};

// Computes exponent[plane]. A gradient is multiplied by 2^exponent before it is converted to an integer.
struct Units {
  Ref dy;
  int64_t n;
  int bits;
  int32_t* exponent;
  DEV void operator()(int64_t plane, const RowTeam& team) const {
    float top = 0;
    team.for_each(n, [&](int64_t i) {
      const float v = fabsf(load<float>(dy, plane * n + i));
      if (v < INFINITY) top = Maximum{}(top, v);
    });
    top = team.reduce(top, 0.0f, Maximum{});
    int e = 0;
    frexpf(top, &e);  // now top < 2^e
    if (team.leads()) exponent[plane] = 61 - bits - e;
  }
};

// Adds each output's weighted gradients to the input elements that the output reads, in fixed point.
struct Scatter {
  Ref grid, dy;
  Shape s;
  const int32_t* exponent;
  int64_t* sums;
  uint8_t* broken;
  DEV void operator()(int64_t i) const {
    const Item at(s, i);
    SampleTaps<float> t[3];
    s.taps(grid, at.image * s.out + at.point, t);
    s.sources(t, [&](int64_t offset, const int* which) {
      const float w = s.weight(t, which);
      for (int64_t c = at.first; c < at.last; ++c) {
        const int64_t plane = at.image * s.channels + c;
        const float g = w * load<float>(dy, plane * s.out + at.point);
        if (fabsf(g) < INFINITY) {
          if (g != 0) add_whole(sums + plane * s.in + offset, llrint(ldexp(static_cast<double>(g), exponent[plane])));
        } else {
          broken[plane * s.in + offset] = 1;  // threads may race, but every thread writes 1
        }
      }
    });
  }
};

// Converts the fixed-point sums to dx.
struct Gather {
  Ref dx;
  int64_t in;
  const int32_t* exponent;
  const int64_t* sums;
  const uint8_t* broken;
  DEV void operator()(int64_t i) const {
    store(dx, i, broken[i] ? NAN : static_cast<float>(ldexp(static_cast<double>(sums[i]), -exponent[i / in])));
  }
};

Kernel forward(const KernelArgs& a) {
  if (in_double(a)) no_fp64(a);
  const Shape s(a.in[0].dims, a.in[1].dims, a.attrs());
  return [&d = device_of(a), body = Forward{a.in[0], a.in[1], a.out[0], s}, n = s.batch * s.groups() * s.out] {
    for_each(d, n, body);
  };
}

Kernel backward(const KernelArgs& a, Carver& carve) {
  if (in_double(a)) no_fp64(a);
  const Shape s(a.in[0].dims, a.in[1].dims, a.attrs());
  const int64_t planes = s.batch * s.channels;
  int64_t* const sums = carve.take<int64_t>(planes * s.in);
  uint8_t* const broken = carve.take<uint8_t>(planes * s.in);
  int32_t* const exponent = carve.take<int32_t>(planes);
  if (carve.measuring()) return {};
  CudaDevice& d = device_of(a);
  // The absolute weights of one output add up to at most 2.6 (cubic taps in three dimensions), so 3 bits are enough for
  // them.
  int bits = 3;
  while ((int64_t{1} << (bits - 3)) < s.out) ++bits;
  const GridGrad of_grid{a.in[0], a.in[1], a.in[2], a.out[1], s};
  const Units units{a.in[2], s.out, bits, exponent};
  const Scatter scatter{a.in[1], a.in[2], s, exponent, sums, broken};
  const Gather gather{a.out[0], s.in, exponent, sums, broken};
  return [&d, of_grid, units, scatter, gather, planes, s] {
    for_each(d, s.batch * s.out, of_grid);
    d.fill(scatter.sums, 0, planes * s.in * 8);
    d.fill(scatter.broken, 0, planes * s.in);
    for_each_row(d, planes, s.out, units);
    for_each(d, s.batch * s.groups() * s.out, scatter);
    for_each(d, planes * s.in, gather);
  };
}

const RegisterKernel kernels[] = {
    {DeviceKind::cuda, "GridSample", forward},
    {DeviceKind::cuda, "GridSampleGrad", with_workspace<backward>, measure_workspace<backward>}};

}  // namespace
}  // namespace amp::cuda
