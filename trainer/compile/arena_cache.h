// ArenaCache: a BoundedCache of entries with Programs, which all compute in one arena.
#pragma once

#include <malloc.h>

#include <memory>
#include <utility>

#include "backend/device.h"
#include "trainer/compile/bounded_cache.h"

namespace amp {

template <class Key, class T>
class ArenaCache {
 public:
  // The device must outlive the cache.
  explicit ArenaCache(Device& device) : device_(device), arena_(device.make_arena()), base_(arena_->base()) {}

  Arena& arena() const { return *arena_; }
  T* find(const Key& key) { return entries_.find(key); }  // as BoundedCache::find
  // Adds the entry that make() returns, whose Programs compute in arena(). Removes before the least recently used
  // entries beyond the limit, and afterwards all others if the arena had to move. bytes: estimated host memory of the
  // entry. The reference is valid until the next call. Calls removing(entry) before each removal.
  template <class Make, class Removing>
  T& add(const Key& key, int64_t bytes, int64_t limit, const Make& make, const Removing& removing) {
    make_room(bytes, limit, removing);
    T made = make();
    if (arena_->base() != base_) {  // all other Programs compute in the arena's old memory
      make_room(0, -1, removing);
      arena_->release_moved();
      base_ = arena_->base();
    }
    return entries_.add(key, std::move(made), bytes);
  }
  void clear() { entries_.clear(); }

  size_t size() const { return entries_.size(); }
  int64_t bytes() const { return entries_.bytes(); }

 private:
  template <class Removing>
  void make_room(int64_t bytes, int64_t limit, const Removing& removing) {
    bool waited = false;
    entries_.make_room(bytes, limit, [&](T& entry) {
      if (!waited) device_.synchronize();  // a GPU may still execute the removed Program
      waited = true;
      removing(entry);
    });
    if (waited) malloc_trim(0);  // the removed Programs consisted of many small blocks, which glibc would keep
  }

  Device& device_;
  std::unique_ptr<Arena> arena_;
  const void* base_;  // address of the arena that the entries use
  BoundedCache<Key, T> entries_;
};

}  // namespace amp
