// Finds equal constants by a hash of their bytes. For each shared tensor, the graphs that contain it are counted, so
// that the constants of removed Programs are freed.
#include "trainer/compile/shared_constants.h"

#include <algorithm>
#include <cstring>
#include <set>

namespace amp {

namespace {

// Returns a hash of all bytes. Tensors with equal hashes are then compared.
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

// Returns the address of the shared tensor that equals t; null if there is none.
const void* SharedConstants::same(uint64_t hash, const HostTensor& t) const {
  const auto [first, last] = by_hash_.equal_range(hash);
  for (auto it = first; it != last; ++it) {
    if (equal(shared_.at(it->second).tensor, t)) return it->second;
  }
  return nullptr;
}

SharedConstants::Addresses SharedConstants::share(Graph& graph) {
  constexpr int64_t kLeast = 1 << 10;
  std::set<const void*> used;
  for (int32_t i = 0; i < graph.n_values(); ++i) {
    const Value& v = graph.value(ValueId{i});
    if (v.kind != ValueKind::constant || !v.constant || v.constant.bytes() < kLeast) continue;
    const auto known_at = shared_.find(v.constant.data());
    if (known_at != shared_.end() && known_at->second.tensor.bytes() != v.constant.bytes())
      graph.set_constant(ValueId{i}, v.constant.copied());  // a view of a part of a shared tensor
    const void* at = v.constant.data();
    if (!shared_.count(at)) {
      const uint64_t h = hash_of(v.constant);
      if (const void* known = same(h, v.constant)) {
        at = known;
        graph.set_constant(ValueId{i}, shared_.at(known).tensor);
      } else {
        shared_.emplace(at, Shared{h, v.constant, 0});
        by_hash_.emplace(h, at);
        on_device_[at] = nullptr;
        bytes_ += v.constant.bytes();
      }
    }
    used.insert(at);
  }
  for (const void* at : used) ++shared_.at(at).graphs;
  return {used.begin(), used.end()};
}

void SharedConstants::release(const Addresses& addresses) {
  for (const void* at : addresses) {
    const auto it = shared_.find(at);
    if (--it->second.graphs > 0) continue;
    const auto [first, last] = by_hash_.equal_range(it->second.hash);
    by_hash_.erase(std::find_if(first, last, [&](const auto& entry) { return entry.second == at; }));
    on_device_.erase(at);
    bytes_ -= it->second.tensor.bytes();
    shared_.erase(it);
  }
}

void SharedConstants::clear() {
  shared_.clear();
  by_hash_.clear();
  on_device_.clear();
  bytes_ = 0;
}

}  // namespace amp
