// Registered paths are stored in fixed arrays, because signal handlers read them. remove_temporaries() claims a slot
// before it removes the path. A thread that completes a file or folder first unregisters it and then renames it. If the
// path is claimed, the thread waits instead, so that no partly removed folder gets its final name.
#include "base/temporary.h"

#include <unistd.h>

#include <atomic>
#include <cstring>

#include "base/remove_quietly.h"

namespace amp {

namespace {
constexpr int kSlots = 32;
constexpr size_t kLongest = 4096;
// The states of a slot. Using it allocates no memory, and a path is written completely before its slot becomes kSet.
enum State { kFree, kFilling, kSet, kRemoving };
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
  if (slot_ < 0) return;
  for (int expected = kSet; !states[slot_].compare_exchange_strong(expected, kFree); expected = kSet)
    ::pause();  // the slot is claimed: another thread is ending the process
}

void remove_temporaries() {
  for (int i = kSlots - 1; i >= 0; --i) {
    int expected = kSet;
    if (!states[i].compare_exchange_strong(expected, kRemoving)) continue;
    remove_quietly(paths[i]);
  }
}

}  // namespace amp
