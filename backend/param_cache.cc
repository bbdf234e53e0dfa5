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

void ParamCache::refresh() {
  for (auto& [key, e] : entries_) e.refresh();
}

std::vector<ParamCache::Copy> ParamCache::copies() const {
  std::vector<Copy> out;
  for (const auto& [key, e] : entries_) out.push_back({key.first, e.copy});
  return out;
}

int64_t ParamCache::bytes() const {
  int64_t n = 0;
  for (const auto& [key, e] : entries_) n += e.copy.bytes();
  return n;
}

}  // namespace amp
