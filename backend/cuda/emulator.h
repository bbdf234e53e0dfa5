// The emulator runs kernels on the CPU, one block after another, to test arithmetic, index maps and synchronization.
// thread.cuh calls it when a compiler other than nvcc is used. It is implemented in tests/emulator and is not part of
// the program or the plugin. Threads of a cooperative kernel are fibers that switch at synchronization points. Threads
// of other kernels run one after the other. With reversed() the threads of a block run from last to first. If this
// changes a result, a sync is missing.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>

namespace amp::cuda::emulator {

struct Thread {
  int thread = 0, threads = 1;  // index of the thread in its block; number of threads in a block
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
// Calls body() for every thread of every block. An exception of a thread ends the launch and is rethrown.
void run(const Block& shape, const std::function<void()>& body);

void reversed(bool on);

// The following functions are synchronization points. A call from a kernel that is not cooperative is an internal
// error.
void sync_block();
// Every lane of the warp passes `bytes` (at most 16) at `mine`, and receives the bytes of lane `from` at `theirs`.
void exchange_bytes(const void* mine, void* theirs, int bytes, int from);
unsigned ballot(bool b);

template <class T>
T exchange(T v, int from) {
  T out;
  exchange_bytes(&v, &out, sizeof(T), from);
  return out;
}

}  // namespace amp::cuda::emulator
