// An arena whose address never changes: address space is reserved once, memory is used as it is wanted.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace amp {

class Arena {
 public:
  Arena() = default;
  virtual ~Arena() = default;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  void* base() const { return base_; }
  // Grows what is in use to at least bytes; Exit::memory when that is more than there is.
  void require(int64_t bytes) {
    if (bytes > used_) grow(bytes);
    used_ = std::max(used_, bytes);
  }
  int64_t used() const { return used_; }

 protected:
  virtual void grow(int64_t bytes) = 0;
  void* base_ = nullptr;

 private:
  int64_t used_ = 0;
};

class HostArena : public Arena {
 public:
  HostArena();
  ~HostArena() override;

 private:
  void grow(int64_t bytes) override;
  int64_t reserved_ = 0;
};

}  // namespace amp
