// The kernels of Dropout (ops/dropout.cc). They drop the same elements as the CPU kernels. A Philox block decides four
// elements, numbered within their sample, so the mask does not depend on the batch size. In channels-last layout,
// elements have the numbers that they have in NCHW layout.
#include "backend/channels_last.h"
#include "backend/cuda/launch.cuh"
#include "backend/cuda/raw.cuh"
#include "ops/dropout.h"

namespace amp::cuda {
namespace {

// Index i stands for one group of elements of a row (a row is one sample): the four elements that a Philox block
// decides, or fewer at the row's end.
template <int W>
struct Dropout {
  Ref x, y;
  const RunState* state;
  int64_t per_row, groups;  // elements per row, groups per row
  uint32_t site, threshold;
  float scale;
  DEV void operator()(int64_t i) const {
    const int64_t row = quotient(i, groups), g = i - row * groups, at = row * per_row + 4 * g;
    const PhiloxBlock bits = dropout_words(*state, row, g, site);
    if constexpr (W == 4) {
      float v[4];
      load4(x, at, v);
      for (int k = 0; k < 4; ++k) v[k] = drop(v[k], bits.v[k], threshold, scale);
      store4(y, at, v);
    } else {
      for (int k = 0; k < 4; ++k) {
        if (4 * g + k < per_row) store(y, at + k, drop(load<float>(x, at + k), bits.v[k], threshold, scale));
      }
    }
  }
};

// Dropout in channels-last layout. An element uses the random number of its index in NCHW layout, (N, C, places), where
// places is the number of spatial positions.
struct DropoutLast {
  Ref x, y;
  const RunState* state;
  int64_t channels, places, per_row;
  uint32_t site, threshold;
  float scale;
  DEV void operator()(int64_t i) const {
    const int64_t at = quotient(i, channels), image = quotient(at, places);
    const int64_t first = (image * channels + i - at * channels) * places + at - image * places,
                  row = quotient(first, per_row), k = first - row * per_row;
    const PhiloxBlock bits = dropout_words(*state, row, k / 4, site);
    store(y, i, drop(load<float>(x, i), bits.word(k), threshold, scale));
  }
};
Kernel channels_last_dropout(const KernelArgs& a, const DropoutShape& s) {
  const Dims& dims = a.in[0].dims;
  const DropoutLast body{a.in[0],
                         a.out[0],
                         a.state,
                         dims.at(3),
                         dims.at(1) * dims.at(2),
                         s.per_row,
                         s.bits.site,
                         s.bits.threshold,
                         static_cast<float>(s.bits.scale)};
  return [&d = device_of(a), body, n = a.in[0].numel()] { for_each(d, n, body); };
}

template <int W>
Kernel prepare(const KernelArgs& a, const DropoutShape& s) {
  const Dropout<W> body{a.in[0],
                        a.out[0],
                        a.state,
                        s.per_row,
                        (s.per_row + 3) / 4,
                        s.bits.site,
                        s.bits.threshold,
                        static_cast<float>(s.bits.scale)};
  return [&d = device_of(a), body, n = s.rows * body.groups] { for_each(d, n, body); };
}

Kernel dropout(const KernelArgs& a) {
  if (in_double(a)) no_fp64(a);
  const int64_t n = a.in[0].numel();
  if (n == 0) return [] {};
  const DropoutShape shape(a.attrs(), n);
  if (has_channels_last(a.attrs())) return channels_last_dropout(a, shape);
  return shape.per_row % 4 == 0 ? prepare<4>(a, shape) : prepare<1>(a, shape);
}

const RegisterKernel kernel{DeviceKind::cuda, "Dropout", dropout};

}  // namespace
}  // namespace amp::cuda
