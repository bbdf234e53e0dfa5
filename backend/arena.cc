#include "backend/arena.h"

#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "base/huge_pages.h"
#include "base/sysinfo.h"

namespace amp {

namespace {
constexpr int64_t kHugePage = int64_t{2} << 20;
}  // namespace

HostArena::HostArena() {
  if (!reserve(kHugePage)) fail(Exit::memory, "E_OOM", cat("cannot reserve ", kHugePage, " bytes of address space"));
}

HostArena::~HostArena() {
  for (const Block& b : blocks_) munmap(b.base, static_cast<size_t>(b.bytes));
}

void HostArena::release_moved() {
  for (size_t i = 0; i + 1 < blocks_.size(); ++i) munmap(blocks_[i].base, static_cast<size_t>(blocks_[i].bytes));
  blocks_.erase(blocks_.begin(), blocks_.end() - 1);
}

bool HostArena::reserve(int64_t bytes) {
  const int64_t whole = (bytes + kHugePage - 1) / kHugePage * kHugePage;
  void* p = mmap(nullptr, static_cast<size_t>(whole), PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return false;
  prefer_huge_pages(p, whole);
  blocks_.push_back({p, whole});
  base_ = p;
  return true;
}

void HostArena::grow(int64_t bytes) {
  if (bytes <= blocks_.back().bytes) return;
  const char* hint = "use a smaller `batch_size` with `gradient_accumulation_steps`, or a smaller `max_seq_len`";
  const int64_t machine = memory_limit_bytes();
  if (bytes > machine)
    fail(Exit::memory, "E_OOM", cat("a step needs ", bytes, " bytes, this process may use ", machine), hint);
  // Doubling bounds the waste: all earlier blocks together are smaller than the new block.
  if (!reserve(std::min(2 * bytes, machine)) && !reserve(bytes)) {
    fail(Exit::memory, "E_OOM",
         cat("a step needs ", bytes, " bytes, and the system gives no address space for them (ulimit -v?)"), hint);
  }
}

}  // namespace amp
