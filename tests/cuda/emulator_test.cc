// The emulator: threads synchronize, warps exchange values, and errors are detected.
#include <catch2/catch_all.hpp>

#include "backend/arena.h"
#include "backend/cuda/launch.cuh"
#include "tests/emulator/emulated_device.h"

using namespace amp;
using namespace amp::cuda;

namespace {

struct BlockSums {
  static constexpr bool cooperative = true;
  const double* x;
  double* y;
  int64_t n;
  void operator()() const {
    double sum = 0;
    for (int64_t i = thread_index(); i < n; i += block_threads()) sum += x[block_index() * n + i];
    sum = block_reduce(sum, 0.0, Sum{}, shared_memory<double>());
    if (thread_index() == 0) y[block_index()] = sum;
  }
};

// Each thread reads its neighbor's element, with or without waiting for the neighbor.
template <bool Waits>
struct Neighbours {
  static constexpr bool cooperative = true;
  int* y;
  void operator()() const {
    int* s = shared_memory<int>();
    s[thread_index()] = thread_index();
    if (Waits) sync_threads();
    y[thread_index()] = s[(thread_index() + 1) % block_threads()];
    sync_threads();
  }
};

struct Uneven {
  static constexpr bool cooperative = true;
  void operator()() const {
    if (thread_index() < 32) warp_reduce(1, Sum{});
    if (thread_index() < 40)
      sync_threads();
    else
      ballot(true);
  }
};

struct Undeclared {
  void operator()() const { sync_threads(); }
};

struct PastTheEnd {
  void operator()() const { shared_memory<char>()[33] = 1; }
};

struct Lanes {
  static constexpr bool cooperative = true;
  unsigned* y;
  void operator()() const {
    const unsigned odd = ballot(lane() % 2 == 1);
    const int first = shuffle(thread_index(), 0);
    y[thread_index()] = odd + static_cast<unsigned>(first);
  }
};

}  // namespace

TEST_CASE("threads of a block synchronize", "[cuda]") {
  const auto device = make_emulated_device();
  const int threads = GENERATE(32, 64, 256, 1024);
  std::vector<double> x(5 * 1000), y(5);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<double>(i);
  launch(*device, {5, threads, 256}, BlockSums{x.data(), y.data(), 1000});
  for (size_t b = 0; b < 5; ++b) CHECK(y[b] == 1000.0 * (1000.0 * static_cast<double>(b)) + 499500.0);

  std::vector<int> n(static_cast<size_t>(threads));
  launch(*device, {1, threads, threads * 4}, Neighbours<true>{n.data()});
  for (int t = 0; t < threads; ++t) CHECK(n[static_cast<size_t>(t)] == (t + 1) % threads);

  std::vector<unsigned> lanes(static_cast<size_t>(threads));
  launch(*device, {1, threads, 0}, Lanes{lanes.data()});
  for (int t = 0; t < threads; ++t)
    CHECK(lanes[static_cast<size_t>(t)] == 0xaaaaaaaau + static_cast<unsigned>(t / 32 * 32));
}

TEST_CASE("a missing sync, a lost thread and a stray write are detected", "[cuda]") {
  const auto device = make_emulated_device();
  std::vector<int> forwards(64), backwards(64);
  launch(*device, {1, 64, 256}, Neighbours<false>{forwards.data()});
  emulator::reversed(true);
  launch(*device, {1, 64, 256}, Neighbours<false>{backwards.data()});
  emulator::reversed(false);
  CHECK(forwards != backwards);
  CHECK_THROWS_WITH(launch(*device, {1, 64, 0}, Uneven{}), Catch::Matchers::ContainsSubstring("wait for each other"));
  CHECK_THROWS_WITH(launch(*device, {1, 64, 0}, Undeclared{}),
                    Catch::Matchers::ContainsSubstring("not declared cooperative"));
  CHECK_THROWS_WITH(launch(*device, {1, 32, 33}, PastTheEnd{}),
                    Catch::Matchers::ContainsSubstring("past its shared memory"));
}

TEST_CASE("launches are listed", "[cuda]") {
  const auto device = make_emulated_device();
  device->keep_events(true);
  for_each(*device, 100000, [](int64_t) {});
  REQUIRE(device->events().size() == 1);
  CHECK(device->events()[0].kind == Event::launch);
  CHECK(device->events()[0].blocks == 64);  // 16 blocks on each of the device's 4 multiprocessors
  CHECK(device->events()[0].threads == 256);
}

TEST_CASE("an emulated arena that grows is at its base", "[cuda]") {
  const auto device = make_emulated_device();
  const auto arena = device->make_arena();
  arena->require(1000);
  const int64_t bytes = int64_t{16} << 20;  // more than the host arena's first block
  arena->require(bytes);
  device->fill(arena->base(), 1, bytes);
  CHECK(static_cast<const char*>(arena->base())[bytes - 1] == 1);
}
