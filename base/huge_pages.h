// Huge pages (2 MiB) for large buffers. They cause fewer page faults on first use and fewer TLB misses.
#pragma once

#include <cstdint>

namespace amp {

// Requests 2-MiB pages for all complete 2-MiB ranges within [p, p + bytes), which must be an anonymous mapping. The
// system may ignore the request.
void prefer_huge_pages(void* p, int64_t bytes);

}  // namespace amp
