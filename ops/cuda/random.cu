// The kernels of RandomUniform (ops/random.cc). By Philox they produce the same numbers as the CPU kernels.
#include "backend/cuda/launch.cuh"
#include "backend/cuda/ref.cuh"
#include "base/philox.h"
#include "ops/dropout.h"

namespace amp::cuda {
namespace {

// Computes elements 4 i to 4 i + 3 in fp64, as on the CPU. In fp32 random bits would be lost if the bounds are far from
// 0.
struct Uniform {
  Ref low, high, y;
  const RunState* state;
  uint32_t site;
  int64_t n;
  DEV void operator()(int64_t i) const {
    const double lo = load<double>(low, 0), hi = load<double>(high, 0);
    const PhiloxBlock bits = philox4x32({{static_cast<uint32_t>(i), static_cast<uint32_t>(state->samples_before),
                                          static_cast<uint32_t>(state->step), site}},
                                        static_cast<uint32_t>(state->seed), static_cast<uint32_t>(state->seed >> 32));
    for (int k = 0; k < 4; ++k) {
      if (4 * i + k < n) store(y, 4 * i + k, lo + (hi - lo) * static_cast<double>(philox_uniform(bits.v[k])));
    }
  }
};

// Computes element i. The random numbers of a row depend on the number of the row's sample in the accumulation step.
struct UniformRows {
  Ref low, high, y;
  const RunState* state;
  uint32_t site;
  int64_t per_row;
  DEV void operator()(int64_t i) const {
    const double lo = load<double>(low, 0), hi = load<double>(high, 0);
    const int64_t e = i % per_row;
    const PhiloxBlock bits = dropout_words(*state, i / per_row, e / 4, site);
    store(y, i, lo + (hi - lo) * static_cast<double>(philox_uniform(bits.word(e))));
  }
};

Kernel uniform(const KernelArgs& a) {
  if (in_double(a)) no_fp64(a);
  if (const int64_t rows = a.attrs().i("rows", 0); rows > 0) {
    const int64_t n = a.out[0].numel();
    const UniformRows body{a.in[0], a.in[1], a.out[0], a.state, static_cast<uint32_t>(a.attrs().i("site", 0)),
                           n / rows};
    return [&d = device_of(a), body, n] { for_each(d, n, body); };
  }
  const Uniform body{a.in[0],         a.in[1], a.out[0], a.state, static_cast<uint32_t>(a.attrs().i("site", 0)),
                     a.out[0].numel()};
  return [&d = device_of(a), body] { for_each(d, (body.n + 3) / 4, body); };
}

const RegisterKernel kernel{DeviceKind::cuda, "RandomUniform", uniform};

}  // namespace
}  // namespace amp::cuda
