// BoundedCache: a map whose entries have sizes. make_room() removes the least recently used entries.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

namespace amp {

template <class Key, class T>
class BoundedCache {
 public:
  // Returns the entry and marks it as the most recently used one; null if there is none. The address is valid until the
  // entry is removed.
  T* find(const Key& key) {
    const auto it = entries_.find(key);
    if (it == entries_.end()) return nullptr;
    it->second.used = ++clock_;
    return &it->second.value;
  }
  T& add(const Key& key, T value, int64_t bytes) {
    Entry& e = entries_.insert_or_assign(key, Entry{std::move(value), bytes, ++clock_}).first->second;
    bytes_ += bytes;
    return e.value;
  }
  // Removes entries, the least recently used first, until `bytes` more are within the limit or none is left. Calls
  // removing(value) before each removal.
  template <class F>
  void make_room(int64_t bytes, int64_t limit, const F& removing) {
    while (!entries_.empty() && bytes_ + bytes > limit) {
      auto oldest = entries_.begin();
      for (auto it = entries_.begin(); it != entries_.end(); ++it) {
        if (it->second.used < oldest->second.used) oldest = it;
      }
      removing(oldest->second.value);
      bytes_ -= oldest->second.bytes;
      entries_.erase(oldest);
    }
  }
  void clear() {
    entries_.clear();
    bytes_ = 0;
  }

  size_t size() const { return entries_.size(); }
  int64_t bytes() const { return bytes_; }

 private:
  struct Entry {
    T value;
    int64_t bytes;
    int64_t used;  // value of clock_ at the last use
  };
  std::map<Key, Entry> entries_;
  int64_t bytes_ = 0, clock_ = 0;
};

}  // namespace amp
