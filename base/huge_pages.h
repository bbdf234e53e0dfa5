// Pages of 2 MiB for large buffers: fewer page faults on first use, fewer TLB misses.
#pragma once

#include <cstdint>

namespace amp {

// Requests 2-MiB pages for the whole 2-MiB ranges of an anonymous mapping within [p, p + bytes). The system may ignore
// the request.
void prefer_huge_pages(void* p, int64_t bytes);

}  // namespace amp
