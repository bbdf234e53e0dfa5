// The emulator's part of tile.cuh: what the lanes of a warp show each other, and copies that arrive late.
#pragma once

#include <cstdint>

namespace amp::cuda::emulator {

constexpr int kShown = 32;  // bytes a lane shows

// A meeting of a warp: every lane puts `bytes` (at most kShown) at `mine`; what lane i put lies at result + i * kShown
// until this lane's second meeting from now.
const char* show_bytes(const void* mine, int bytes);

// 16 bytes that arrive in shared memory when the thread waits for them, not before: `bytes` of them are copied, the
// rest are zero. Before it does, the destination reads as NaN.
void copy_later(void* to, const void* from, int bytes);
void commit_copies();           // those since the last call are one group
void await_copies(int groups);  // all groups but the last `groups` have arrived

}  // namespace amp::cuda::emulator
