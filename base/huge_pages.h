// Pages of 2 MiB for memory that is used as a whole: fewer faults as it is first written, fewer misses of the TLB.
#pragma once

#include <cstdint>

namespace amp {

// For the whole pages within [p, p + bytes), of an anonymous mapping. A wish: the system may be set not to grant it.
void prefer_huge_pages(void* p, int64_t bytes);

}  // namespace amp
