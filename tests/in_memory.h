// Limits the memory for data during a test.
#pragma once

#include "base/limits.h"

namespace amp::test {

class InMemoryLimit {
 public:
  explicit InMemoryLimit(int64_t bytes) : former_(limits()) {
    Limits now = former_;
    now.in_memory_bytes = bytes;
    set_limits(now);
  }
  InMemoryLimit(const InMemoryLimit&) = delete;
  InMemoryLimit& operator=(const InMemoryLimit&) = delete;
  ~InMemoryLimit() { set_limits(former_); }

 private:
  Limits former_;
};

}  // namespace amp::test
