// The cast cache: values that are derived from parameters only (16-bit copies), shared by all Programs and
// refreshed when parameters have changed.
#pragma once

#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "backend/device.h"

namespace amp {

class ParamCache {
 public:
  explicit ParamCache(Device& device = cpu_device()) : device_(&device) {}
  // Returns a copy of a parameter in another type. The copy is computed now and by every refresh().
  Tensor copy(const Tensor& param, int slot, DType dtype);
  // A parameter that joined() concatenates with others along an axis. Each part is refreshed separately.
  struct Part {
    int slot;
    Tensor param;  // the parameter, in the shape in which it is concatenated
  };
  Tensor joined(const std::vector<Part>& parts, size_t axis, DType dtype);
  void refresh();
  int64_t bytes() const;
  struct Copy {
    int slot;
    Tensor tensor;  // the copy's first element, with the parameter's shape
    // Number of contiguous elements in a row, and the distance of two rows. 0: the whole copy is contiguous.
    int64_t row = 0, pitch = 0;
  };
  std::vector<Copy> copies() const;
  size_t size() const { return entries_.size() + joined_.size(); }

 private:
  struct Entry {
    Tensor source, copy;
    DeviceMemory memory;
    Kernel refresh;
  };
  struct Joined {
    Tensor whole;
    DeviceMemory memory;
    std::vector<Copy> parts;
    std::vector<Kernel> refresh;
  };
  Device* device_;
  std::map<std::pair<int, DType>, Entry> entries_;
  std::map<std::tuple<std::vector<int>, size_t, DType>, Joined> joined_;
};

}  // namespace amp
