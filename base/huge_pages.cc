#include "base/huge_pages.h"

#include <sys/mman.h>

namespace amp {

void prefer_huge_pages(void* p, int64_t bytes) {
  constexpr uintptr_t kPage = uintptr_t{2} << 20;
  const auto begin = (reinterpret_cast<uintptr_t>(p) + kPage - 1) / kPage * kPage,
             end = (reinterpret_cast<uintptr_t>(p) + static_cast<uintptr_t>(bytes)) / kPage * kPage;
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
}

}  // namespace amp
