// Implements the base class of devices and the CPU device. The CPU device takes memory from the heap and kernels from
// the CPU table, and copies immediately. Large allocations ask for huge pages before any of their pages is touched.

#include "backend/device.h"

#include <cstring>

#include "backend/cpu/update/update.h"
#include "backend/parallel.h"
#include "base/error.h"
#include "base/huge_pages.h"

namespace amp {

Kernel Device::check_indices(const Tensor&, const IndexBound&, const std::string&) {
  return [] {};  // no check: the device's kernels check indices themselves, or the device runs no kernels
}

HostTensor Device::read(const Tensor& t) {
  HostTensor h = HostTensor::empty(t.dtype, t.dims);
  if (t.numel() > 0) download(h.mutable_data(), t.data, t.bytes());
  return h;
}

namespace {

class CpuDevice final : public Device {
 public:
  DeviceTraits traits() const override {
    DeviceTraits t;
    t.host_memory = t.checks_indices = t.activates_norms = t.merges_qkv = true;
    t.recomputes_freely = t.lends_gradients = t.reads_deferred = true;
    return t;
  }
  std::string description() const override { return "CPU"; }
  PrepareKernel kernel(std::string_view op) const override { return find_kernel(DeviceKind::cpu, op); }
  int64_t workspace(const Graph& g, const Node& n) const override {
    return n.op->workspace ? n.op->workspace(g, n) : 0;
  }

  static constexpr int64_t kLarge = int64_t{8} << 20;  // bytes; allocations from this size on have untouched pages
  DeviceMemory allocate(int64_t bytes) override {
    const auto t = std::make_shared<HostTensor>(HostTensor::zeros(DType::u8, {bytes}));
    if (bytes >= kLarge) prefer_huge_pages(t->mutable_data(), bytes);
    return DeviceMemory(t, t->mutable_data());
  }
  std::unique_ptr<Arena> make_arena() override { return std::make_unique<HostArena>(); }
  int64_t memory_in_use() const override { return 0; }

  void upload(void* to, const void* host, int64_t bytes) override {
    check(host || bytes == 0, "upload of a released tensor");
    copy(to, host, bytes);
  }
  void download(void* host, const void* from, int64_t bytes) override { copy(host, from, bytes); }
  void synchronize() override {}
  HostTensor on_host(const Tensor& t) override { return HostTensor(t.dtype, t.dims, nullptr, t.data); }
  void copy(void* to, const void* from, int64_t bytes) override {
    if (bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));
  }
  void fill(void* to, uint8_t byte, int64_t bytes) override {
    if (bytes > 0) std::memset(to, byte, static_cast<size_t>(bytes));
  }

  Kernel convert(const Tensor& from, const Tensor& to) override {
    return [from, to] {
      parallel_ranges(to.numel(), 65536, [&](int64_t b, int64_t e) {
        amp::convert(from.dtype, static_cast<const char*>(from.data) + b * size_of(from.dtype), to.dtype,
                     static_cast<char*>(to.data) + b * size_of(to.dtype), e - b);
      });
    };
  }
  Kernel add(const Tensor& to, const Tensor& v) override {
    check(to.dtype == v.dtype && (v.dtype == DType::f32 || v.dtype == DType::f64),
          "gradients are accumulated in fp32 or fp64");
    return [to, v] {
      parallel_ranges(to.numel(), 65536, [&](int64_t b, int64_t e) {
        with_type(to.dtype, [&](auto zero) {
          using T = decltype(zero);
          if constexpr (std::is_floating_point_v<T>) {
            T* y = static_cast<T*>(to.data);
            const T* x = static_cast<const T*>(v.data);
            for (int64_t i = b; i < e; ++i) y[i] += x[i];
          }
        });
      });
    };
  }
  Kernel convert_rows(const Tensor& from, const Tensor& to, int64_t row, int64_t pitch) override {
    return [=, rows = to.numel() / std::max<int64_t>(row, 1)] {
      parallel_ranges(rows, 65536 / row + 1, [&](int64_t b, int64_t e) {
        for (int64_t r = b; r < e; ++r) {
          amp::convert(from.dtype, static_cast<const char*>(from.data) + r * row * size_of(from.dtype), to.dtype,
                       static_cast<char*>(to.data) + r * pitch * size_of(to.dtype), row);
        }
      });
    };
  }
  std::unique_ptr<Recording> record(const std::function<void()>&) override { return nullptr; }
  std::unique_ptr<DeviceUpdate> make_update(const UpdateSpec& spec) override { return make_cpu_update(spec); }
};

}  // namespace

Device& cpu_device() {
  static CpuDevice device;
  return device;
}

}  // namespace amp
