// The emulator's part of tile.cuh: data exchanged between the lanes of a warp, and asynchronous copies.
#pragma once

#include <cstdint>

namespace amp::cuda::emulator {

constexpr int kShown = 32;  // bytes that a lane publishes

// Exchanges bytes between the lanes of a warp; a synchronization point. Every lane passes `bytes` (at most kShown) at
// `mine`. Returns a buffer in which the bytes of lane i begin at i * kShown. The buffer is valid until the second next
// call by this lane.
const char* show_bytes(const void* mine, int bytes);

// Copies 16 bytes to shared memory when the thread waits for the copy. Only the first `bytes` bytes are read; the
// others become zero. Before the wait the destination reads as NaN, so that a missing wait changes results.
void copy_later(void* to, const void* from, int bytes);
void commit_copies();           // combines the copies since the last call to one group
void await_copies(int groups);  // waits for all groups but the last `groups`

}  // namespace amp::cuda::emulator
