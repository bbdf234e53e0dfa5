// The kernel of TokenDropout (ops/token_dropout.cc). It drops the same elements as the CPU kernel.
#include "backend/cuda/launch.cuh"
#include "backend/cuda/ref.cuh"
#include "base/philox.h"
#include "ops/dropout.h"

namespace amp::cuda {
namespace {

// Index i stands for one group: the elements of one token, at most four, that one Philox block decides.
struct TokenDropout {
  Ref x, y;
  const int64_t* tokens;
  const RunState* state;
  int64_t unit, groups, length;  // elements per token, groups per token, tokens per sample
  uint32_t site, threshold;
  float scale;
  DEV void operator()(int64_t i) const {
    const int64_t token = i / groups, place = tokens[token], sample = place / length,
                  before = (place - sample * length) * unit;
    const int64_t block = before / 4 + (i - token * groups);
    const PhiloxBlock bits =
        philox4x32({{static_cast<uint32_t>(block), static_cast<uint32_t>(state->samples_before + sample),
                     static_cast<uint32_t>(state->step), site}},
                   static_cast<uint32_t>(state->seed), static_cast<uint32_t>(state->seed >> 32));
    for (int k = 0; k < 4; ++k) {
      const int64_t at = 4 * block + k - before;
      if (at < 0 || at >= unit) continue;
      store(y, token * unit + at, bits.v[k] < threshold ? 0.0f : load<float>(x, token * unit + at) * scale);
    }
  }
};

Kernel dropout(const KernelArgs& a) {
  if (in_double(a)) no_fp64(a);
  if (a.in[0].numel() == 0) return [] {};
  const int64_t n = a.in[1].numel(), unit = a.in[0].numel() / n;
  const DropoutBits bits = dropout_bits(a.attrs());
  // A token whose elements are not a multiple of four may begin inside a Philox block and extend into one block more.
  const int64_t groups = unit % 4 == 0 ? unit / 4 : unit / 4 + 2;
  const TokenDropout body{
      a.in[0],   a.out[0],       a.in[1].as<int64_t>(),         a.state, unit, groups, a.attrs().i("length", 1),
      bits.site, bits.threshold, static_cast<float>(bits.scale)};
  return [&d = device_of(a), body, total = n * groups] { for_each(d, total, body); };
}

const RegisterKernel kernel{DeviceKind::cuda, "TokenDropout", dropout};

}  // namespace
}  // namespace amp::cuda
