#include "trainer/compile/shared_constants.h"

#include <cstring>

namespace amp {

namespace {

// A hash of all bytes; equal hashes are followed by a comparison.
uint64_t hash_of(const HostTensor& t) {
  constexpr uint64_t kPrime = 0x9e3779b97f4a7c15;
  const auto* p = static_cast<const char*>(t.data());
  uint64_t h = static_cast<uint64_t>(t.bytes()) * kPrime + static_cast<uint64_t>(t.dtype());
  int64_t i = 0;
  for (; i + 8 <= t.bytes(); i += 8) {
    uint64_t word;
    std::memcpy(&word, p + i, 8);
    h = (h ^ word) * kPrime;
    h ^= h >> 32;
  }
  for (; i < t.bytes(); ++i) h = (h ^ static_cast<uint8_t>(p[i])) * kPrime;
  return h;
}

bool equal(const HostTensor& a, const HostTensor& b) {
  return a.dtype() == b.dtype() && a.dims() == b.dims() &&
         std::memcmp(a.data(), b.data(), static_cast<size_t>(a.bytes())) == 0;
}

}  // namespace

void SharedConstants::share(Graph& graph) {
  constexpr int64_t kLarge = int64_t{64} << 10;
  for (int32_t i = 0; i < graph.n_values(); ++i) {
    const Value& v = graph.value(ValueId{i});
    if (v.kind != ValueKind::constant || !v.constant || v.constant.bytes() < kLarge) continue;
    if (on_device_.count(v.constant.data())) continue;
    const uint64_t h = hash_of(v.constant);
    const auto [first, last] = by_hash_.equal_range(h);
    auto same = first;
    while (same != last && !equal(same->second, v.constant)) ++same;
    if (same != last) {
      graph.set_constant(ValueId{i}, same->second);
    } else {
      on_device_[v.constant.data()] = nullptr;
      by_hash_.emplace(h, v.constant);
    }
  }
}

void SharedConstants::clear() {
  by_hash_.clear();
  on_device_.clear();
}

}  // namespace amp
