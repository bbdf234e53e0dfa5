#include "backend/arena.h"

#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"

namespace amp {

HostArena::HostArena() {
  reserved_ = static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  void* p = mmap(nullptr, static_cast<size_t>(reserved_), PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) fail(Exit::memory, "E_OOM", cat("cannot reserve ", reserved_, " bytes of address space"));
  madvise(p, static_cast<size_t>(reserved_), MADV_HUGEPAGE);
  base_ = p;
}

HostArena::~HostArena() { munmap(base_, static_cast<size_t>(reserved_)); }

void HostArena::grow(int64_t bytes) {
  if (bytes > reserved_) {
    fail(Exit::memory, "E_OOM", cat("a step needs ", bytes, " bytes, the machine has ", reserved_),
         "use a smaller --batch_size with --gradient_accumulation_steps, or a smaller --max_seq_len");
  }
}

}  // namespace amp
