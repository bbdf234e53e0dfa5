// The emulator: runs kernels on the CPU, one block after another, to test arithmetic, index maps and synchronization.
// The dialect (thread.cuh) calls it where nvcc does not compile; tests/emulator implements it, no product links it.
// Threads of a cooperative kernel are fibers that switch where threads meet; others run to their end, in turn.
// With reversed() the threads of a block run from the last to the first: a kernel whose result changes lacks a sync.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>

namespace amp::cuda::emulator {

struct Thread {
  int thread = 0, threads = 1;  // within the block
  int64_t block = 0, blocks = 1;
  void* shared = nullptr;
};
Thread& self();

struct Block {
  int64_t blocks = 1;
  int threads = 1;
  int64_t shared = 0;
  bool cooperative = false;
};
// Calls body() for every thread of every block. An exception of a thread ends it all.
void run(const Block& shape, const std::function<void()>& body);

void reversed(bool on);

// Meeting points; outside a cooperative kernel an internal error.
void sync_block();
// Every lane of the warp puts `bytes` (at most 16) at `mine` and takes what lane `from` put.
void exchange_bytes(const void* mine, void* theirs, int bytes, int from);
unsigned ballot(bool b);

template <class T>
T exchange(T v, int from) {
  T out;
  exchange_bytes(&v, &out, sizeof(T), from);
  return out;
}

}  // namespace amp::cuda::emulator
