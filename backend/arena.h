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

  // Returns the start of the arena's memory. The address changes when the arena has to move in order to grow; memory at
  // the old address then stays valid until release_moved().
  void* base() const { return base_; }
  // Grows the used size to at least `bytes`. Throws E_OOM (Exit::memory) if there is not enough memory.
  void require(int64_t bytes) {
    if (bytes > used_) grow(bytes);
    used_ = std::max(used_, bytes);
  }
  int64_t used() const { return used_; }
  // Frees memory at addresses that the arena had before it moved. No Program may use them any more.
  virtual void release_moved() {}

 protected:
  virtual void grow(int64_t bytes) = 0;
  void* base_ = nullptr;

 private:
  int64_t used_ = 0;
};

// An arena in the host's memory. It reserves address space on demand instead of the machine's whole memory at once,
// because address space may be limited (ulimit -v, containers). Pages are committed when they are first accessed.
class HostArena : public Arena {
 public:
  HostArena();
  ~HostArena() override;
  void release_moved() override;

 private:
  struct Block {
    void* base;
    int64_t bytes;
  };
  bool reserve(int64_t bytes);  // reserves address space for a new, larger block; false if the system refuses
  void grow(int64_t bytes) override;
  std::vector<Block> blocks_;
};

}  // namespace amp
