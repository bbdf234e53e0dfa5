// An arena whose address never changes: address space is reserved once, pages are used as they are touched.
#pragma once

#include <cstddef>
#include <cstdint>

namespace amp {

class Arena {
 public:
  Arena();
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  void* base() const { return base_; }
  // Grows what is in use to at least bytes; Exit::memory when that is more than the machine has.
  void require(int64_t bytes);
  int64_t used() const { return used_; }

 private:
  void* base_ = nullptr;
  int64_t reserved_ = 0, used_ = 0;
};

}  // namespace amp
