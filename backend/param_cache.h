// The prologue: values derived from parameters only (16-bit copies), shared by all Programs and refreshed when the
// parameters changed.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "backend/device.h"

namespace amp {

class ParamCache {
 public:
  explicit ParamCache(Device& device = cpu_device()) : device_(&device) {}
  // The copy of a parameter in another type, made now and by every refresh().
  Tensor copy(const Tensor& param, int slot, DType dtype);
  void refresh();
  int64_t bytes() const;
  struct Copy {
    int slot;
    Tensor tensor;
  };
  std::vector<Copy> copies() const;
  size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    Tensor source, copy;
    DeviceMemory memory;
    Kernel refresh;
  };
  Device* device_;
  std::map<std::pair<int, DType>, Entry> entries_;
};

}  // namespace amp
