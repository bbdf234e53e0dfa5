// Optimizer moments in 8 bits (Dettmers et al. 2022, arXiv:2110.02861), as in bitsandbytes. A block of 256 elements
// stores its largest magnitude and a code per element: an index into a map of 256 numbers with a dynamic exponent
// width. Tensors of fewer than 4096 elements stay in fp32. This file is shared by all devices.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "backend/update.h"
#include "base/dtype.h"

namespace amp {

// Returns 256 ascending numbers in [-1, 1] (unsigned: [0, 1]).
const std::array<float, 256>& dynamic_map(bool is_signed);
uint8_t code_of_zero(bool is_signed);

// Returns the code of x in a block with this largest magnitude: the nearest number of the map, on a tie the smaller.
HD inline uint8_t code_of(const float* map, float x, float largest) {
  float y = x * (largest > 0 ? 1.0f / largest : 0.0f);
  y = y < -1.0f ? -1.0f : y > 1.0f ? 1.0f : y;
  int low = 0, high = 256;  // map[i] < y for i < low, map[i] >= y for i >= high
  while (low < high) {
    const int middle = (low + high) / 2;
    if (map[middle] < y)
      low = middle + 1;
    else
      high = middle;
  }
  int at = low < 256 ? low : 255;
  if (at > 0 && y - map[at - 1] <= map[at] - y) --at;
  return static_cast<uint8_t>(at);
}

// Offsets of a moment for each span (one tensor's elements). Elements are counted from the start of a span. A span may
// be updated in several shards; each begins at a block of 256 elements.
struct QuantizedLayout {
  explicit QuantizedLayout(const std::vector<UpdateSpan>& spans);
  struct Place {
    int64_t codes = 0, blocks = 0, wide = -1;  // offsets of codes, of blocks, and of fp32 elements (-1 if quantized)
  };
  std::vector<Place> places;
  int64_t codes = 0, blocks = 0, wide = 0;  // total numbers of codes, blocks and fp32 elements
  // Names in checkpoints of the three tensors of moment i: codes, largest magnitudes of the blocks, fp32 elements.
  static std::array<const char*, 3> names(int moment);
};

}  // namespace amp
