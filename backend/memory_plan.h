// Computes offsets for buffers with known lifetimes, so that one arena serves a whole Program.
#pragma once

#include <cstdint>
#include <vector>

namespace amp {

struct BufferLife {
  int64_t bytes = 0;
  int32_t first = 0, last = 0;  // indices of the first and the last node that use the buffer
  int64_t offset = -1;          // offset in the arena in bytes, a multiple of 64; set by plan_memory()
  // Address of a buffer that is not in the arena (backend/gradient_scratch.h), otherwise null.
  char* place = nullptr;

  int64_t padded() const { return (bytes + 63) / 64 * 64; }
  bool meets(const BufferLife& o) const { return first <= o.last && o.first <= last; }
};

// Sets the offset of each buffer without a `place` and returns the arena's size in bytes. Greedy: takes the largest
// buffer first and places it at the lowest offset that does not overlap a buffer that is alive at the same time.
int64_t plan_memory(std::vector<BufferLife>& buffers);

}  // namespace amp
