#include "backend/memory_plan.h"

#include <algorithm>

namespace amp {

int64_t plan_memory(std::vector<BufferLife>& buffers) {
  std::vector<size_t> order;
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (!buffers[i].place) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return buffers[a].bytes > buffers[b].bytes; });
  std::vector<size_t> placed;  // sorted by offset
  int64_t total = 0;
  for (const size_t i : order) {
    BufferLife& b = buffers[i];
    const int64_t bytes = b.padded();
    int64_t at = 0;
    for (const size_t j : placed) {
      const BufferLife& o = buffers[j];
      if (!o.meets(b)) continue;
      if (o.offset >= at + bytes) break;
      at = std::max(at, o.offset + o.padded());
    }
    b.offset = at;
    total = std::max(total, at + bytes);
    const auto where = std::upper_bound(placed.begin(), placed.end(), i,
                                        [&](size_t x, size_t y) { return buffers[x].offset < buffers[y].offset; });
    placed.insert(where, i);
  }
  return total;
}

}  // namespace amp
