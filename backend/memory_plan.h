// Computes offsets for buffers with known lifetimes, so that one arena serves a whole Program.
#pragma once

#include <cstdint>
#include <vector>

namespace amp {

struct BufferLife {
  int64_t bytes = 0;
  int32_t first = 0, last = 0;  // steps, both inclusive
  int64_t offset = -1;          // the result, a multiple of 64
  char* place = nullptr;        // its address if it is not in the arena (backend/gradient_scratch.h)

  int64_t padded() const { return (bytes + 63) / 64 * 64; }
  bool meets(const BufferLife& o) const { return first <= o.last && o.first <= last; }
};

// Plans all buffers without a place. Greedy by size: the largest buffer first, each at the lowest offset that does
// not overlap a buffer that is alive at the same time. Returns the arena's size in bytes.
int64_t plan_memory(std::vector<BufferLife>& buffers);

}  // namespace amp
