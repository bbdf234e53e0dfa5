// The memory plan: buffers whose lifetimes overlap share no byte.
#include "backend/memory_plan.h"

#include <algorithm>
#include <catch2/catch_all.hpp>
#include <random>

#include "backend/arena.h"
#include "base/error.h"

using namespace amp;

namespace {

int64_t rounded(int64_t bytes) { return (bytes + 63) / 64 * 64; }

// Returns the largest number of bytes that are live in one step.
int64_t busiest(const std::vector<BufferLife>& buffers, int32_t steps) {
  int64_t most = 0;
  for (int32_t s = 0; s < steps; ++s) {
    int64_t live = 0;
    for (const BufferLife& b : buffers) live += b.first <= s && s <= b.last ? rounded(b.bytes) : 0;
    most = std::max(most, live);
  }
  return most;
}

}  // namespace

TEST_CASE("buffers that live together do not overlap") {
  std::mt19937 rng(4);
  double worst = 1;
  for (int trial = 0; trial < 300; ++trial) {
    const int32_t steps = 1 + static_cast<int32_t>(rng() % 40);
    std::vector<BufferLife> buffers(1 + rng() % 120);
    for (BufferLife& b : buffers) {
      b.first = static_cast<int32_t>(rng()) % steps;
      b.first = std::abs(b.first);
      // Most lifetimes are short, some last to the end, as in forward and backward.
      b.last = rng() % 4 == 0 ? steps - 1 : std::min<int32_t>(steps - 1, b.first + static_cast<int32_t>(rng() % 5));
      b.bytes = rng() % 10 == 0 ? 0 : static_cast<int64_t>(rng() % 5000);
    }
    const int64_t total = plan_memory(buffers);
    for (size_t i = 0; i < buffers.size(); ++i) {
      const BufferLife& a = buffers[i];
      REQUIRE(a.offset >= 0);
      REQUIRE(a.offset % 64 == 0);
      REQUIRE(a.offset + a.bytes <= total);
      for (size_t j = 0; j < i; ++j) {
        const BufferLife& b = buffers[j];
        if (a.last < b.first || b.last < a.first || a.bytes == 0 || b.bytes == 0) continue;
        REQUIRE((a.offset + a.bytes <= b.offset || b.offset + b.bytes <= a.offset));
      }
    }
    const int64_t least = busiest(buffers, steps);
    REQUIRE(total >= least);
    if (least > 0) worst = std::max(worst, static_cast<double>(total) / static_cast<double>(least));
  }
  CHECK(worst < 1.5);  // bytes of the plan, relative to the lower bound
}

TEST_CASE("lives that do not meet share one place") {
  std::vector<BufferLife> b = {{100, 0, 1}, {200, 2, 3}, {64, 4, 4}};
  CHECK(plan_memory(b) == 256);
  CHECK((b[0].offset == 0 && b[1].offset == 0 && b[2].offset == 0));
  std::vector<BufferLife> touching = {{100, 0, 2}, {200, 2, 3}};  // both live in step 2
  CHECK(plan_memory(touching) == 256 + 128);
  std::vector<BufferLife> none;
  CHECK(plan_memory(none) == 0);
}

TEST_CASE("an arena that grows leaves what lies in it usable") {
  HostArena a;
  a.require(1000);
  char* const small = static_cast<char*>(a.base());
  small[999] = 7;
  a.require(int64_t{64} << 20);
  char* const large = static_cast<char*>(a.base());
  large[(64 << 20) - 1] = 8;
  CHECK(small[999] == 7);
  a.require(int64_t{100} << 20);  // fits into the memory that is already reserved
  CHECK(a.base() == large);
}

TEST_CASE("an arena stays where it is and refuses what no machine has") {
  HostArena a;
  void* const base = a.base();
  a.require(1000);
  a.require(int64_t{1} << 20);
  CHECK(a.base() == base);
  CHECK(a.used() == int64_t{1} << 20);
  a.require(10);
  CHECK(a.used() == int64_t{1} << 20);
  try {
    a.require(int64_t{1} << 60);
    FAIL("an exabyte was promised");
  } catch (const Error& e) {
    CHECK(e.exit() == Exit::memory);
    CHECK(e.id() == "E_OOM");
  }
}
