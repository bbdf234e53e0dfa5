// The emulator's part of tile.cuh: data exchanged between the lanes of a warp, and asynchronous copies.
#pragma once

#include <cstdint>

namespace amp::cuda::emulator {

constexpr int kShown = 32;  // bytes that a lane publishes

// A synchronization point of a warp. Every lane publishes `bytes` (at most kShown) at `mine`. Those of lane i are at
// result + i * kShown until this lane's second next call.
const char* show_bytes(const void* mine, int bytes);

// Copies 16 bytes to shared memory when the thread waits for them: `bytes` are copied, the rest are zero. Until then
// the destination reads as NaN, so that a missing wait changes results.
void copy_later(void* to, const void* from, int bytes);
void commit_copies();           // makes the copies since the last call one group
void await_copies(int groups);  // waits for all groups but the last `groups`

}  // namespace amp::cuda::emulator
