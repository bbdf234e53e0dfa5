#include "base/temporary.h"

#include <atomic>
#include <cstring>

#include "base/remove_quietly.h"

namespace amp {

namespace {
constexpr int kSlots = 32;
constexpr size_t kLongest = 4096;
// Signal handlers read these arrays. Therefore no memory is allocated, and a path is complete before its slot is marked
// as set.
enum State { kFree, kFilling, kSet };
std::atomic<int> states[kSlots];
char paths[kSlots][kLongest];
static_assert(std::atomic<int>::is_always_lock_free);
}  // namespace

TemporaryPath::TemporaryPath(const std::string& path) {
  if (path.size() >= kLongest) return;
  for (int i = 0; i < kSlots; ++i) {
    int expected = kFree;
    if (!states[i].compare_exchange_strong(expected, kFilling)) continue;
    std::memcpy(paths[i], path.c_str(), path.size() + 1);
    states[i] = kSet;
    slot_ = i;
    return;
  }
}

TemporaryPath::~TemporaryPath() {
  if (slot_ >= 0) states[slot_] = kFree;
}

void remove_temporaries() {
  for (int i = kSlots - 1; i >= 0; --i) {
    if (states[i] != kSet) continue;
    remove_quietly(paths[i]);
  }
}

}  // namespace amp
