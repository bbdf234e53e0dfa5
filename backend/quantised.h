// Moments in 8 bits (Dettmers et al. 2022, arXiv:2110.02861), as bitsandbytes keeps them: a block of 256 elements is
// its largest magnitude and a code for each element, an index into a map of 256 numbers whose exponent has a width of
// its own. Tensors of fewer than 4096 elements stay in fp32. Here: what all devices have in common.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "backend/update.h"
#include "base/dtype.h"

namespace amp {

// 256 numbers in [-1, 1] (unsigned: [0, 1]), ascending.
const std::array<float, 256>& dynamic_map(bool is_signed);
uint8_t code_of_zero(bool is_signed);

// Of x in a block of this largest magnitude: the nearest of the map's numbers, the smaller of two as near.
HD inline uint8_t code_of(const float* map, float x, float largest) {
  float y = x * (largest > 0 ? 1.0f / largest : 0.0f);
  y = y < -1.0f ? -1.0f : y > 1.0f ? 1.0f : y;
  int low = 0, high = 256;  // map[i] < y for i below low, not from high on
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

// Where a moment of each span lies. Elements are counted from a span's beginning; parts of a span begin at blocks.
struct QuantisedLayout {
  explicit QuantisedLayout(const std::vector<UpdateSpan>& spans);
  struct Place {
    int64_t codes = 0, blocks = 0, wide = -1;  // offsets; wide: in fp32
  };
  std::vector<Place> places;
  int64_t codes = 0, blocks = 0, wide = 0;  // elements of all
  // Names of the parts of the i-th moment in checkpoints.
  static std::array<const char*, 3> names(int moment);
};

}  // namespace amp
