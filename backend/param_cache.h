// The prologue: values derived from parameters only (16-bit copies), shared by all Programs and refreshed when the
// parameters changed.
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
  // The copy of a parameter in another type, made now and by every refresh().
  Tensor copy(const Tensor& param, int slot, DType dtype);
  // Several parameters side by side along an axis, each refreshed by itself.
  struct Part {
    int slot;
    Tensor param;  // in the shape in which it is joined
  };
  Tensor joined(const std::vector<Part>& parts, size_t axis, DType dtype);
  void refresh();
  int64_t bytes() const;
  struct Copy {
    int slot;
    Tensor tensor;               // where it begins, in the parameter's shape
    int64_t row = 0, pitch = 0;  // elements that lie close, and from one such row to the next; 0: all lie close
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
