#include "backend/measuring_device.h"

#include <algorithm>
#include <cstring>

#include "backend/update.h"
#include "base/error.h"
#include "base/text.h"

namespace amp {

namespace {

class MeasuringArena final : public Arena {
 public:
  explicit MeasuringArena(std::shared_ptr<int64_t> in_use) : in_use_(std::move(in_use)) {
    base_ = reinterpret_cast<void*>(uintptr_t{1} << 40);  // distinct from the addresses that allocate() returns
  }
  ~MeasuringArena() override { *in_use_ -= used(); }

 private:
  void grow(int64_t bytes) override { *in_use_ += bytes - used(); }
  std::shared_ptr<int64_t> in_use_;
};

Kernel nothing(const KernelArgs&) {
  return [] {};
}

}  // namespace

PrepareKernel MeasuringDevice::kernel(std::string_view op) const { return like_.kernel(op) ? nothing : nullptr; }

DeviceMemory MeasuringDevice::allocate(int64_t bytes) {
  const uintptr_t at = next_;
  next_ += static_cast<uintptr_t>((bytes + 255) / 256 * 256);
  *in_use_ += bytes;
  return DeviceMemory(reinterpret_cast<void*>(at), [in_use = in_use_, bytes](void*) { *in_use -= bytes; });
}

std::unique_ptr<Arena> MeasuringDevice::make_arena() { return std::make_unique<MeasuringArena>(in_use_); }

void MeasuringDevice::download(void* host, const void*, int64_t bytes) {
  if (bytes > 0) std::memset(host, 0, static_cast<size_t>(bytes));
}

std::unique_ptr<DeviceUpdate> MeasuringDevice::make_update(const UpdateSpec&) { bug("an update is not measured"); }

std::vector<std::string> largest_tensors(const Graph& g, size_t count, bool deferred) {
  std::vector<std::pair<int64_t, std::string>> rows;
  for (int32_t i = 0; i < g.n_values(); ++i) {
    const Value& v = g.value(ValueId{i});
    if (v.kind != ValueKind::temp || (!deferred && g.node(v.producer).op->deferred)) continue;
    const int64_t bytes = numel(v.dims) * size_of(v.dtype);
    rows.emplace_back(bytes, cat(g.node(v.producer).op->name, ' ', to_string(v.dims), ' ', name_of(v.dtype), ", ",
                                 with_thousands(bytes), " B"));
  }
  std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<std::string> out;
  for (size_t i = 0; i < rows.size() && i < count; ++i) out.push_back(rows[i].second);
  return out;
}

}  // namespace amp
