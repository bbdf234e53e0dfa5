// Arena: memory shared by Programs that do not run at the same time.
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

  // Start of the current block. If an arena had to move in order to grow, the old block stays valid.
  void* base() const { return base_; }
  // Grows the used size to at least `bytes`. Fails with Exit::memory if there is not enough.
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

// Reserves address space on demand instead of the machine's whole memory, because processes may be limited in it
// (ulimit -v, containers). Pages are committed when they are touched.
class HostArena : public Arena {
 public:
  HostArena();
  ~HostArena() override;

 private:
  struct Block {
    void* base;
    int64_t bytes;
  };
  bool reserve(int64_t bytes);  // allocates a new block; false if the system refuses
  void grow(int64_t bytes) override;
  std::vector<Block> blocks_;
};

}  // namespace amp
