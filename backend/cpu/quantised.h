// Moments in 8 bits (Dettmers et al. 2022, arXiv:2110.02861), as bitsandbytes keeps them: a block of 256 elements is
// its largest magnitude and a code for each element, an index into a map of 256 numbers whose exponent has a width of
// its own. Tensors of fewer than 4096 elements stay in fp32.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "backend/update.h"
#include "base/host_tensor.h"

namespace amp {

// 256 numbers in [-1, 1] (unsigned: [0, 1]), ascending.
const std::array<float, 256>& dynamic_map(bool is_signed);

// One block: from at most kQuantisedBlock numbers to their codes; returns the largest magnitude.
float quantise_block(const std::array<float, 256>& map, const float* x, int64_t n, uint8_t* codes);
void dequantise_block(const std::array<float, 256>& map, float largest, const uint8_t* codes, int64_t n, float* x);

// A moment of all spans. Elements are counted from a span's beginning; parts of a span begin at blocks.
class QuantisedMoment {
 public:
  QuantisedMoment(const std::vector<UpdateSpan>& spans, bool is_signed);
  void load(size_t span, int64_t at, int64_t count, float* x) const;
  void store(size_t span, int64_t at, int64_t count, const float* x);

  int64_t bytes() const { return codes_.bytes() + largest_.bytes() + wide_.bytes(); }
  // Codes, largest magnitudes, and the small tensors: what a checkpoint keeps.
  std::vector<HostTensor*> parts() { return {&codes_, &largest_, &wide_}; }

 private:
  struct Place {
    int64_t codes = 0, blocks = 0, wide = -1;  // offsets; wide: in fp32
  };
  const std::array<float, 256>& map_;
  std::vector<Place> places_;
  HostTensor codes_, largest_, wide_;
};

}  // namespace amp
