#include "base/huge_pages.h"

#include <sys/mman.h>

namespace amp {

void prefer_huge_pages(void* p, int64_t bytes) {
  constexpr uintptr_t kPage = uintptr_t{2} << 20;
  const auto at = reinterpret_cast<uintptr_t>(p), begin = (at + kPage - 1) / kPage * kPage,
             end = (at + static_cast<uintptr_t>(bytes)) / kPage * kPage;
  if (begin < end) madvise(static_cast<char*>(p) + (begin - at), end - begin, MADV_HUGEPAGE);
}

}  // namespace amp
