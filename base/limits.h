// Resource limits for models and data, because a file of a few kilobytes can declare tensors of any size. The limits
// are process-wide; they are set once, from flags, before a model is read.
#pragma once

#include <cstdint>

namespace amp {

struct Limits {
  int64_t graph_nodes = 200'000;               // counted after inlining functions and unrolling loops
  int64_t activation_bytes = 0;                // largest tensor; 0: derived from the model (graph/limits.h)
  int64_t constant_bytes = int64_t{64} << 20;  // largest tensor that is computed from constants
  // data larger than this is moved to a file (base/spill.h); 0: derived from the machine's memory
  int64_t in_memory_bytes = 0;
  // largest number of pixels of an image; 0: derived from the image's file (data/images/decoder.h)
  int64_t image_pixels = 0;
};

// A compressed file that unpacks to more than this multiple of its size is refused as a decompression bomb, unless the
// result is small.
inline constexpr int64_t kMostGrowth = 100;

const Limits& limits();
void set_limits(const Limits& limits);

}  // namespace amp
