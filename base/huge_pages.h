// Pages of 2 MiB for large buffers: fewer page faults on first use, fewer TLB misses.
#pragma once

#include <cstdint>

namespace amp {

// Applies to the whole 2-MiB pages within [p, p + bytes) of an anonymous mapping. The system may ignore the request.
void prefer_huge_pages(void* p, int64_t bytes);

}  // namespace amp
