// A device that allocates and computes nothing. It measures how much memory a Session would use on another device.
#pragma once

#include <string>
#include <vector>

#include "backend/device.h"

namespace amp {

// Counts the bytes that a Session would allocate on the device `like`. A Session on it gets the workspace sizes of
// `like` and addresses that must not be accessed. Runs do nothing, and downloads return zeros.
class MeasuringDevice final : public Device {
 public:
  explicit MeasuringDevice(const Device& like) : like_(like) {}

  DeviceTraits traits() const override {
    DeviceTraits t = like_.traits();
    t.host_memory = false;  // its memory must not be accessed
    return t;
  }
  std::string description() const override { return like_.description(); }
  PrepareKernel kernel(std::string_view op) const override;
  int64_t workspace(const Graph& g, const Node& n) const override { return like_.workspace(g, n); }
  DeviceMemory allocate(int64_t bytes) override;
  std::unique_ptr<Arena> make_arena() override;
  int64_t memory_in_use() const override { return *in_use_; }  // includes arenas
  void upload(void*, const void*, int64_t) override {}
  void download(void* host, const void* from, int64_t bytes) override;
  void synchronize() override {}
  void copy(void*, const void*, int64_t) override {}
  void fill(void*, uint8_t, int64_t) override {}
  Kernel convert(const Tensor&, const Tensor&) override {
    return [] {};
  }
  Kernel add(const Tensor&, const Tensor&) override {
    return [] {};
  }
  Kernel convert_rows(const Tensor&, const Tensor&, int64_t, int64_t) override {
    return [] {};
  }
  std::unique_ptr<Recording> record(const std::function<void()>&) override { return nullptr; }
  std::unique_ptr<DeviceUpdate> make_update(const UpdateSpec& spec) override;

 private:
  const Device& like_;
  std::shared_ptr<int64_t> in_use_ = std::make_shared<int64_t>(0);
  uintptr_t next_ = 1 << 20;
};

// Describes the largest tensors that a graph computes: "Softmax [32,12,128,128] float16, 12,582,912 B". deferred:
// includes dequantized weights (OpDef::deferred), which are not stored on devices with the trait reads_deferred.
std::vector<std::string> largest_tensors(const Graph& g, size_t count, bool deferred);

}  // namespace amp
