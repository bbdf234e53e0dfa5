// An arena: memory that Programs which do not run at the same time share.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace amp {

class Arena {
 public:
  Arena() = default;
  virtual ~Arena() = default;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // Of what was last required. Where an arena had to move to grow, what lies at the old address stays usable.
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

// Reserves address space as it is asked for, not all that the machine has: processes may be limited in it (ulimit -v,
// containers). Memory is used as it is touched.
class HostArena : public Arena {
 public:
  HostArena();
  ~HostArena() override;

 private:
  struct Block {
    void* base;
    int64_t bytes;
  };
  bool reserve(int64_t bytes);  // a new block; false where the system refuses
  void grow(int64_t bytes) override;
  std::vector<Block> blocks_;
};

}  // namespace amp
