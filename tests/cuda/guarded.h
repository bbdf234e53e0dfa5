// Memory of the emulated device with guards that detect accesses outside of a tensor.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch_all.hpp>
#include <cstring>
#include <memory>

#include "backend/kernel.h"

namespace amp::test {

// A tensor (in host memory, which is the emulated device's) that ends at an unmapped page: reading after its end
// crashes the test. The bytes around it must not change.
class Guarded {
 public:
  Guarded(DType type, const Dims& dims) : tensor{nullptr, type, dims}, used_((tensor.bytes() + 63) / 64 * 64) {
    const int64_t page = sysconf(_SC_PAGESIZE);
    span_ = (used_ + page) / page * page;
    void* const p =
        mmap(nullptr, static_cast<size_t>(span_ + page), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(p != MAP_FAILED);
    memory_ = std::shared_ptr<unsigned char>(
        static_cast<unsigned char*>(p), [n = span_ + page](unsigned char* q) { munmap(q, static_cast<size_t>(n)); });
    REQUIRE(mprotect(memory_.get() + span_, static_cast<size_t>(page), PROT_NONE) == 0);
    std::fill_n(memory_.get(), span_, kAround);
    tensor.data = memory_.get() + span_ - used_;
  }
  // Checks that the bytes around the tensor are unchanged.
  void check() const {
    const unsigned char* const begin = memory_.get() + span_ - used_;
    CHECK((intact(memory_.get(), begin) && intact(begin + tensor.bytes(), memory_.get() + span_)));
  }
  HostTensor read() const {
    check();
    HostTensor t = HostTensor::empty(tensor.dtype, tensor.dims);
    if (tensor.bytes() > 0) std::memcpy(t.mutable_data(), tensor.data, static_cast<size_t>(tensor.bytes()));
    return t;
  }

  Tensor tensor;

 private:
  static bool intact(const unsigned char* begin, const unsigned char* end) {
    return std::all_of(begin, end, [](unsigned char c) { return c == kAround; });
  }
  static constexpr unsigned char kAround = 0xa5;
  int64_t used_, span_ = 0;
  std::shared_ptr<unsigned char> memory_;
};

}  // namespace amp::test
