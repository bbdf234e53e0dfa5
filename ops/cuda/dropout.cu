// Dropout (ops/dropout.cc): the same bits as on the CPU.
#include "backend/cuda/launch.cuh"
#include "backend/cuda/raw.cuh"
#include "base/philox.h"

namespace amp::cuda {
namespace {

// Group g of a row's elements is what one Philox block decides: four, or fewer at the row's end.
template <int W>
struct Dropout {
  Ref x, y;
  const RunState* state;
  int64_t per_row, groups;  // of a row
  uint32_t site, threshold;
  float scale;
  DEV void operator()(int64_t i) const {
    const int64_t row = quotient(i, groups), g = i - row * groups, at = row * per_row + 4 * g;
    const PhiloxBlock bits = philox4x32({{static_cast<uint32_t>(g), static_cast<uint32_t>(state->samples_before + row),
                                          static_cast<uint32_t>(state->step), site}},
                                        static_cast<uint32_t>(state->seed), static_cast<uint32_t>(state->seed >> 32));
    if constexpr (W == 4) {
      float v[4];
      load4(x, at, v);
      for (int k = 0; k < 4; ++k) v[k] = bits.v[k] < threshold ? 0.0f : v[k] * scale;
      store4(y, at, v);
    } else {
      for (int k = 0; k < 4; ++k) {
        if (4 * g + k < per_row) store(y, at + k, bits.v[k] < threshold ? 0.0f : load<float>(x, at + k) * scale);
      }
    }
  }
};

template <int W>
Kernel prepare(const KernelArgs& a, int64_t rows, int64_t per_row) {
  const double ratio = a.attrs().f("ratio", 0.5);
  const Dropout<W> body{a.in[0],
                        a.out[0],
                        a.state,
                        per_row,
                        (per_row + 3) / 4,
                        static_cast<uint32_t>(a.attrs().i("site", 0)),
                        static_cast<uint32_t>(ratio * 4294967296.0),
                        static_cast<float>(1.0 / (1.0 - ratio))};
  return [&d = device_of(a), body, n = rows * body.groups] { for_each(d, n, body); };
}

Kernel dropout(const KernelArgs& a) {
  if (in_double(a)) no_fp64(a);
  const int64_t n = a.in[0].numel();
  if (n == 0) return [] {};
  int64_t rows = a.attrs().i("rows", 1);
  if (n % rows != 0) rows = 1;
  return n / rows % 4 == 0 ? prepare<4>(a, rows, n / rows) : prepare<1>(a, rows, n / rows);
}

const RegisterKernel kernel{DeviceKind::cuda, "Dropout", dropout};

}  // namespace
}  // namespace amp::cuda
