#include "backend/param_cache.h"

namespace amp {

Tensor ParamCache::copy(const Tensor& param, int slot, DType dtype) {
  Entry& e = entries_[{slot, dtype}];
  if (!e.memory) {
    e.source = param;
    e.copy = Tensor{nullptr, dtype, param.dims};
    e.memory = device_->allocate(e.copy.bytes());
    e.copy.data = e.memory.get();
    e.refresh = device_->convert(e.source, e.copy);
    e.refresh();
  }
  return e.copy;
}

Tensor ParamCache::joined(const std::vector<Part>& parts, size_t axis, DType dtype) {
  std::vector<int> slots;
  for (const Part& p : parts) slots.push_back(p.slot);
  Joined& j = joined_[{slots, axis, dtype}];
  if (j.memory) return j.whole;
  Dims dims = parts.at(0).param.dims;
  dims[axis] = 0;
  for (const Part& p : parts) dims[axis] += p.param.dims[axis];
  j.whole = Tensor{nullptr, dtype, dims};
  j.memory = device_->allocate(j.whole.bytes());
  j.whole.data = j.memory.get();
  const int64_t pitch = numel(Dims(dims.begin() + static_cast<std::ptrdiff_t>(axis), dims.end()));
  int64_t at = 0;
  for (const Part& p : parts) {
    const Dims& d = p.param.dims;
    const int64_t row = numel(Dims(d.begin() + static_cast<std::ptrdiff_t>(axis), d.end()));
    j.parts.push_back({p.slot, Tensor{static_cast<char*>(j.whole.data) + at * size_of(dtype), dtype, d}, row, pitch});
    j.refresh.push_back(device_->convert_rows(p.param, j.parts.back().tensor, row, pitch));
    j.refresh.back()();
    at += row;
  }
  return j.whole;
}

void ParamCache::refresh() {
  for (auto& [key, e] : entries_) e.refresh();
  for (auto& [key, j] : joined_) {
    for (const Kernel& part : j.refresh) part();
  }
}

std::vector<ParamCache::Copy> ParamCache::copies() const {
  std::vector<Copy> out;
  for (const auto& [key, e] : entries_) out.push_back({key.first, e.copy, 0, 0});
  for (const auto& [key, j] : joined_) out.insert(out.end(), j.parts.begin(), j.parts.end());
  return out;
}

int64_t ParamCache::bytes() const {
  int64_t n = 0;
  for (const auto& [key, e] : entries_) n += e.copy.bytes();
  for (const auto& [key, j] : joined_) n += j.whole.bytes();
  return n;
}

}  // namespace amp
