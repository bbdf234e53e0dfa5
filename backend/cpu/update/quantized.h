// 8-bit moments on the CPU (backend/quantized.h).
#pragma once

#include <vector>

#include "backend/quantized.h"
#include "base/host_tensor.h"

namespace amp {

// Quantizes one block of at most kQuantizedBlock numbers; returns the largest magnitude.
float quantize_block(const std::array<float, 256>& map, const float* x, int64_t n, uint8_t* codes);
void dequantize_block(const std::array<float, 256>& map, float largest, const uint8_t* codes, int64_t n, float* x);

// Stores one moment of all spans; moments of small tensors stay in fp32.
class QuantizedMoment {
 public:
  QuantizedMoment(const std::vector<UpdateSpan>& spans, bool is_signed);
  void load(size_t span, int64_t at, int64_t count, float* x) const;
  void store(size_t span, int64_t at, int64_t count, const float* x);

  int64_t bytes() const { return codes_.bytes() + largest_.bytes() + wide_.bytes(); }
  // Returns codes, largest magnitudes, and the small tensors, as stored in checkpoints.
  std::vector<HostTensor*> parts() { return {&codes_, &largest_, &wide_}; }

 private:
  const std::array<float, 256>& map_;
  QuantizedLayout layout_;
  HostTensor codes_, largest_, wide_;
};

}  // namespace amp
