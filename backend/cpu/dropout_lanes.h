// The bits of dropout, many numbers of Philox at a time (base/philox.h is their definition).
#pragma once

#include <cstdint>

#include "base/philox.h"

namespace amp::cpu {

struct DropoutLanes {
  PhiloxBlock counter;  // of the first group of four elements; the next groups count its first word on
  uint32_t key0, key1;
  uint32_t threshold;  // words below it drop an element
  float keep;          // what the others are multiplied by

  static constexpr int64_t kGroups = 8;  // at a time

  // factor[4 g + j]: 0 or keep, for g in [0, groups), a multiple of kGroups.
  void write(int64_t groups, float* factor) const;
};

}  // namespace amp::cpu
