// Sorts keys below 2^32. Up to kCountedAtOnce keys take one launch: every element counts the elements below it, which
// is its position. More keys take 1 + log2(n / 256) launches. Tiles of 256 keys are sorted by counting and then merged;
// every element finds its own position by binary search. The result depends only on the keys.
#pragma once

#include "backend/cpu/workspace.h"
#include "backend/cuda/launch.cuh"

namespace amp::cuda {

// Returns a word that contains a key and its index. Words are distinct, and sorted words keep equal keys in order.
DEV uint64_t sort_word(int64_t key, int64_t i) { return static_cast<uint64_t>(key) << 32 | static_cast<uint32_t>(i); }
DEV int64_t key_of(uint64_t word) { return static_cast<int64_t>(word >> 32); }
DEV int64_t place_of(uint64_t word) { return static_cast<int64_t>(word & 0xffffffffu); }

// Returns how many words of the ascending range [begin, end) are below w.
DEV int64_t count_below(const uint64_t* words, int64_t begin, int64_t end, uint64_t w) {
  const int64_t first = begin;
  while (begin < end) {
    const int64_t middle = begin + (end - begin) / 2;
    if (words[middle] < w)
      begin = middle + 1;
    else
      end = middle;
  }
  return begin - first;
}

constexpr int kSortTile = 256;

template <class Key>
struct SortTile {
  static constexpr bool cooperative = true;
  Key key;
  uint64_t* out;
  int64_t n;
  DEV void operator()() const {
    uint64_t* const tile = shared_memory<uint64_t>();
    for (int64_t base = block_index() * kSortTile; base < n; base += grid_blocks() * kSortTile) {
      const int64_t i = base + thread_index();
      const int many = static_cast<int>(n - base < kSortTile ? n - base : kSortTile);
      if (i < n) tile[thread_index()] = sort_word(key(i), i);
      sync_threads();
      if (i < n) {
        const uint64_t mine = tile[thread_index()];
        int below = 0;
        for (int j = 0; j < many; ++j) below += tile[j] < mine ? 1 : 0;
        out[base + below] = mine;
      }
      sync_threads();
    }
  }
};

// Merges neighboring sorted runs of 2^shift words.
struct MergeRuns {
  const uint64_t* in;
  uint64_t* out;
  int64_t n;
  int shift;
  DEV void operator()(int64_t i) const {
    const int64_t begin = i >> (shift + 1) << (shift + 1), run = int64_t{1} << shift;
    const int64_t middle = begin + run < n ? begin + run : n, end = begin + 2 * run < n ? begin + 2 * run : n;
    const uint64_t w = in[i];
    const bool left = i < middle;
    const int64_t others = left ? count_below(in, middle, end, w) : count_below(in, begin, middle, w);
    out[(left ? i : begin + (i - middle)) + others] = w;
  }
};

// The maximum number of keys that fit into a block's shared memory.
constexpr int64_t kCountedAtOnce = 8192;

// Each block finds the positions of 32 elements, one per lane. Its warps divide the keys to compare with.
template <class Key>
struct SortByCounting {
  static constexpr bool cooperative = true;
  static constexpr int max_threads = 256, kWarps = max_threads / 32;
  Key key;
  uint64_t* out;
  int64_t n;
  static int64_t shared_bytes(int64_t n) { return 4 * (n + max_threads); }
  DEV void operator()() const {
    uint32_t* const keys = shared_memory<uint32_t>();
    uint32_t* const counts = keys + n;
    for (int64_t i = thread_index(); i < n; i += block_threads()) keys[i] = static_cast<uint32_t>(key(i));
    sync_threads();
    const auto share = static_cast<int>((n + kWarps - 1) / kWarps), all = static_cast<int>(n);
    const int begin = warp() * share, end = begin + share < all ? begin + share : all;
    for (int64_t base = block_index() * 32; base < n; base += grid_blocks() * 32) {
      const int64_t i = base + lane();
      const uint32_t mine = i < n ? keys[i] : 0;
      uint32_t below = 0;
      for (int j = begin; j < end; ++j) below += keys[j] < mine || (keys[j] == mine && j < i) ? 1 : 0;
      counts[thread_index()] = below;
      sync_threads();
      if (warp() == 0 && i < n) {
        int64_t place = 0;
        for (int w = 0; w < kWarps; ++w) place += counts[w * 32 + lane()];
        out[place] = sort_word(mine, i);
      }
      sync_threads();
    }
  }
};

struct Sorted {
  const uint64_t* words = nullptr;  // sorted words
  Kernel sort;
};

// Returns a kernel that sorts the words of key(0) to key(n - 1), and the address of the sorted words. key(i) is in [0,
// 2^32), and n < 2^32. Used in prepare functions: takes 16 n bytes of workspace from carver.
template <class Key>
Sorted prepare_sort(CudaDevice* d, Carver& carver, int64_t n, const Key& key) {
  uint64_t* a = carver.take<uint64_t>(n);
  uint64_t* b = carver.take<uint64_t>(n);
  if (carver.measuring()) return {};
  check(n < int64_t{1} << 32, "2^32 keys to sort");
  if (n > kSortTile && n <= kCountedAtOnce) {
    const SortByCounting<Key> count{key, a, n};
    const Grid grid{(n + 31) / 32, count.max_threads, count.shared_bytes(n)};
    return {a, [d, grid, count] { launch(*d, grid, count); }};
  }
  std::vector<MergeRuns> merges;
  const SortTile<Key> tiles{key, a, n};
  for (int shift = 8; int64_t{1} << shift < n; ++shift) {
    merges.push_back({a, b, n, shift});
    std::swap(a, b);
  }
  const Grid grid{std::min<int64_t>((n + kSortTile - 1) / kSortTile, int64_t{1} << 30), kSortTile, kSortTile * 8};
  return {a, [d, grid, tiles, merges, n] {
            launch(*d, grid, tiles);
            for (const MergeRuns& m : merges) for_each(*d, n, m);
          }};
}

}  // namespace amp::cuda
