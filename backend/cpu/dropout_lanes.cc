// Philox4x32-10 for dropout masks, with the vectors of the instruction set (isa_kernels.h) or with scalar code. All
// versions return the bits of base/philox.h.

#include "backend/cpu/dropout_lanes.h"

#include "backend/cpu/isa_kernels.h"

namespace amp::cpu {
namespace {

void write_single(const DropoutLanes& d, int64_t groups, float* factor) {
  PhiloxBlock counter = d.counter;
  for (int64_t g = 0; g < groups; ++g, ++counter.v[0]) {
    const PhiloxBlock block = philox4x32(counter, d.key0, d.key1);
    for (const uint32_t word : block.v) *factor++ = word < d.threshold ? 0.0f : d.keep;
  }
}

}  // namespace

void DropoutLanes::write(int64_t groups, float* factor) const {
  const auto lanes = isa_kernels().dropout;
  (lanes ? lanes : write_single)(*this, groups, factor);
}

}  // namespace amp::cpu
