// Runs CUDA kernels on the CPU. Threads of a cooperative kernel are fibers (ucontext to start, setjmp to switch), which
// a scheduler resumes in turn until they wait at a barrier or end. Shared memory reads as NaN until it is written. A
// block whose threads wait at different barriers is reported as a fault.
#include "backend/cuda/emulator.h"

#include <ucontext.h>

#include <algorithm>
#include <csetjmp>
#include <exception>
#include <memory>
#include <utility>
#include <vector>

#include "backend/cuda/emulated_tile.h"
#include "base/error.h"

namespace amp::cuda::emulator {

namespace {

constexpr size_t kStack = 256 << 10;

// A barrier: opens when all threads that have not ended have arrived.
struct Barrier {
  int alive = 0, arrived = 0;
  int64_t generation = 0;
  void arrive() {
    if (++arrived == alive) open();
  }
  void leave() {  // called by a thread that ends: others do not wait for it
    --alive;
    if (alive > 0 && arrived == alive) open();
  }
  void open() {
    arrived = 0;
    ++generation;
  }
};

struct Warp {
  Barrier barrier;
  // Two sets, used in turn: a fast lane cannot overwrite values that a slow lane still reads.
  alignas(16) char slot[2][32][kShown];
  bool vote[2][32];
};

struct LateCopy {
  void* to;
  const void* from;
  int bytes, group;
};

struct Fiber {
  ucontext_t start;
  jmp_buf at;
  std::unique_ptr<char[]> stack;
  bool started = false, ended = false;
  Barrier* waits = nullptr;
  int64_t generation = 0;
  int exchanges = 0;
  std::vector<LateCopy> copies;  // copies that have not arrived
  int groups = 0;                // committed groups of copies
};

struct Machine {
  Thread now;
  bool cooperative = false, reverse = false;
  std::vector<Fiber> fibers;
  std::vector<Warp> warps;
  Barrier block;
  jmp_buf scheduler;
  const std::function<void()>* body = nullptr;
  std::exception_ptr error;
};
thread_local Machine m;

void wait(Barrier& b) {
  Fiber& f = m.fibers[static_cast<size_t>(m.now.thread)];
  f.waits = &b;
  f.generation = b.generation;
  b.arrive();
  if (b.generation != f.generation) return;  // true for the thread that arrives last
  if (_setjmp(f.at) == 0) _longjmp(m.scheduler, 1);
}

void enter() {
  try {
    (*m.body)();
  } catch (...) {
    if (!m.error) m.error = std::current_exception();
  }
  const auto t = static_cast<size_t>(m.now.thread);
  m.fibers[t].ended = true;
  m.block.leave();
  m.warps[t / 32].barrier.leave();
  _longjmp(m.scheduler, 1);
}

// Resumes fiber t until it waits or ends.
void resume(size_t t) {
  Fiber& f = m.fibers[t];
  m.now.thread = static_cast<int>(t);
  if (_setjmp(m.scheduler) != 0) return;
  if (f.started) _longjmp(f.at, 1);
  f.started = true;
  if (!f.stack) f.stack = std::make_unique<char[]>(kStack);
  getcontext(&f.start);
  f.start.uc_stack.ss_sp = f.stack.get();
  f.start.uc_stack.ss_size = kStack;
  f.start.uc_link = nullptr;
  makecontext(&f.start, enter, 0);
  setcontext(&f.start);
}

void run_block(int threads) {
  const auto n = static_cast<size_t>(threads);
  if (m.fibers.size() < n) m.fibers.resize(n);
  m.warps.assign((n + 31) / 32, Warp{});
  for (size_t t = 0; t < n; ++t) {
    m.fibers[t].started = m.fibers[t].ended = false;
    m.fibers[t].waits = nullptr;
    m.fibers[t].exchanges = 0;
    m.fibers[t].copies.clear();
    m.fibers[t].groups = 0;
    ++m.warps[t / 32].barrier.alive;
  }
  m.block = Barrier{threads, 0, 0};
  for (bool more = true; more;) {
    more = false;
    bool moved = false;
    for (size_t i = 0; i < n; ++i) {
      const size_t t = m.reverse ? n - 1 - i : i;
      Fiber& f = m.fibers[t];
      if (f.ended) continue;
      more = true;
      if (f.waits && f.waits->generation == f.generation) continue;
      f.waits = nullptr;
      moved = true;
      resume(t);
      if (m.error) std::rethrow_exception(std::exchange(m.error, nullptr));
    }
    check(moved || !more, "the threads of a block wait for each other at different places");
  }
}

}  // namespace

Thread& self() { return m.now; }
void reversed(bool on) { m.reverse = on; }

void run(const Block& shape, const std::function<void()>& body) {
  check(shape.threads > 0 && shape.threads <= 1024 && shape.threads % 32 == 0, "a block has 32, 64, ... 1024 threads");
  check(shape.blocks > 0 && shape.blocks <= 2147483647, "a grid has 1 to 2^31 - 1 blocks");
  check(shape.shared <= 99 << 10, "a block has at most 99 KiB of shared memory");
  // Shared memory starts as NaN, which reveals reads before writes. Bytes after its end are checked.
  std::vector<unsigned char> shared(static_cast<size_t>(shape.shared) + 64);
  m.cooperative = shape.cooperative;
  m.body = &body;
  m.now.threads = shape.threads;
  m.now.blocks = shape.blocks;
  m.now.shared = shared.data();
  for (int64_t b = 0; b < shape.blocks; ++b) {
    m.now.block = b;
    std::memset(shared.data(), 0xff, shared.size());
    if (shape.cooperative) {
      run_block(shape.threads);
    } else {
      for (int t = 0; t < shape.threads; ++t) {
        m.now.thread = m.reverse ? shape.threads - 1 - t : t;
        body();
      }
    }
    for (size_t i = static_cast<size_t>(shape.shared); i < shared.size(); ++i)
      check(shared[i] == 0xff, "a kernel wrote past its shared memory");
  }
}

void sync_block() {
  check(m.cooperative, "sync_threads() in a kernel that is not declared cooperative");
  wait(m.block);
}

void exchange_bytes(const void* mine, void* theirs, int bytes, int from) {
  check(m.cooperative, "a shuffle in a kernel that is not declared cooperative");
  check(bytes <= 16 && from >= 0 && from < 32, "a shuffle of at most 16 bytes among 32 lanes");
  const int t = m.now.thread;
  Warp& w = m.warps[static_cast<size_t>(t / 32)];
  auto& slots = w.slot[m.fibers[static_cast<size_t>(t)].exchanges++ & 1];
  std::memcpy(slots[t % 32], mine, static_cast<size_t>(bytes));
  wait(w.barrier);
  std::memcpy(theirs, slots[from], static_cast<size_t>(bytes));
}

unsigned ballot(bool b) {
  unsigned out = 0;
  const uint32_t mine = b ? 1 : 0;
  // Every lane publishes its vote; after one barrier each reads all votes.
  const int t = m.now.thread;
  check(m.cooperative, "a ballot in a kernel that is not declared cooperative");
  Warp& w = m.warps[static_cast<size_t>(t / 32)];
  auto& votes = w.vote[m.fibers[static_cast<size_t>(t)].exchanges++ & 1];
  votes[t % 32] = mine != 0;
  wait(w.barrier);
  for (int i = 0; i < 32; ++i) out |= votes[i] ? 1u << i : 0u;
  return out;
}

const char* show_bytes(const void* mine, int bytes) {
  check(m.cooperative, "a matrix instruction in a kernel that is not declared cooperative");
  check(bytes <= kShown, "a lane shows at most 32 bytes");
  const int t = m.now.thread;
  Warp& w = m.warps[static_cast<size_t>(t / 32)];
  auto& slots = w.slot[m.fibers[static_cast<size_t>(t)].exchanges++ & 1];
  if (bytes > 0) std::memcpy(slots[t % 32], mine, static_cast<size_t>(bytes));
  wait(w.barrier);
  return slots[0];
}

void copy_later(void* to, const void* from, int bytes) {
  check(m.cooperative, "a late copy in a kernel that is not declared cooperative");
  check(reinterpret_cast<uintptr_t>(to) % 16 == 0 && reinterpret_cast<uintptr_t>(from) % 16 == 0 && bytes >= 0 &&
            bytes <= 16,
        "a late copy of 16 bytes between multiples of 16");
  const auto* const base = static_cast<const char*>(m.now.shared);
  check(static_cast<char*>(to) >= base, "a late copy to shared memory");
  std::memset(to, 0xff, 16);
  Fiber& f = m.fibers[static_cast<size_t>(m.now.thread)];
  f.copies.push_back({to, from, bytes, f.groups});
}

void commit_copies() { ++m.fibers[static_cast<size_t>(m.now.thread)].groups; }

void await_copies(int groups) {
  Fiber& f = m.fibers[static_cast<size_t>(m.now.thread)];
  const auto arrives = [&](const LateCopy& c) {
    if (c.group >= f.groups - groups) return false;
    std::memset(c.to, 0, 16);
    if (c.bytes > 0) std::memcpy(c.to, c.from, static_cast<size_t>(c.bytes));
    return true;
  };
  f.copies.erase(std::remove_if(f.copies.begin(), f.copies.end(), arrives), f.copies.end());
}

}  // namespace amp::cuda::emulator
