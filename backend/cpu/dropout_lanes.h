// Computes dropout masks from many Philox numbers (base/philox.h) at a time.
#pragma once

#include <cstdint>

#include "base/philox.h"

namespace amp::cpu {

struct DropoutLanes {
  PhiloxBlock counter;  // counter of the first group of four elements; later groups increment its first word
  uint32_t key0, key1;
  uint32_t threshold;  // random words below this drop the element
  float keep;          // factor of kept elements

  static constexpr int64_t kGroups = 8;  // groups that a vector version computes per call

  // Sets factor[4 g + j] to 0 or `keep` for g in [0, groups). `groups` must be a multiple of kGroups.
  void write(int64_t groups, float* factor) const;
};

}  // namespace amp::cpu
