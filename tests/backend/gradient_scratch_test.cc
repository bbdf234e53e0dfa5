// Activations may use the gradient arena as scratch memory, but only ranges to which no gradient has been written yet.
#include "backend/gradient_scratch.h"

#include <catch2/catch_all.hpp>
#include <random>

#include "backend/program_plan.h"
#include "tests/backend/small_nets.h"

using namespace amp;
using namespace amp::test;

namespace {

// Returns whether adjacent spans that are written after `last` contain [at, at + bytes).
bool free_until(const std::vector<ScratchSpan>& spans, const char* at, int64_t bytes, int32_t last) {
  for (const char* const end = at + bytes; at < end;) {
    const auto s = std::find_if(spans.begin(), spans.end(), [&](const ScratchSpan& x) {
      return x.until > last && x.begin <= at && at < x.begin + x.bytes;
    });
    if (s == spans.end()) return false;
    at = s->begin + s->bytes;
  }
  return true;
}

bool together(const BufferLife& a, const BufferLife& b) { return a.first <= b.last && b.first <= a.last; }

}  // namespace

TEST_CASE("buffers lie where no gradient is written before they die, and not upon each other") {
  std::mt19937 rng(9);
  const auto below = [&](int32_t n) { return static_cast<int32_t>(rng() % static_cast<uint32_t>(n)); };
  alignas(64) static char memory[1 << 20];
  size_t placed = 0;
  for (int trial = 0; trial < 200; ++trial) {
    const int32_t steps = 20;
    std::vector<ScratchSpan> spans;
    for (int64_t at = 0; at < (1 << 19);) {
      const int64_t bytes = 4 * (1 + below(8000));
      spans.push_back({memory + at, bytes, 1 + below(steps)});
      at += (bytes + 63) / 64 * 64;  // sometimes with a gap before the next span
    }
    std::shuffle(spans.begin(), spans.end(), rng);
    std::vector<BufferLife> buffers(60);
    for (BufferLife& b : buffers) {
      b.first = below(steps);
      b.last = std::min<int32_t>(steps - 1, b.first + below(8));
      b.bytes = below(40000);
    }
    place_in_gradients(buffers, spans);
    for (size_t i = 0; i < buffers.size(); ++i) {
      const BufferLife& a = buffers[i];
      if (!a.place) continue;
      ++placed;
      REQUIRE(free_until(spans, a.place, a.bytes, a.last));
      REQUIRE((a.place - memory) % 64 == 0);
      for (size_t j = 0; j < i; ++j) {
        const BufferLife& b = buffers[j];
        if (!b.place || !together(a, b)) continue;
        REQUIRE((a.place + a.bytes <= b.place || b.place + b.bytes <= a.place));
      }
    }
    plan_memory(buffers);
    for (const BufferLife& b : buffers) REQUIRE((b.offset >= 0) == !b.place);
  }
  CHECK(placed > 1000);
}

TEST_CASE("what dies early lies in gradients that are written early") {
  alignas(64) static char memory[3 * 4096];
  const std::vector<ScratchSpan> spans = {{memory, 4096, 9}, {memory + 4096, 4096, 3}, {memory + 2 * 4096, 4096, 6}};
  std::vector<BufferLife> buffers = {{4096, 0, 2}, {4096, 0, 5}, {4096, 0, 8}, {4096, 0, 9}};
  place_in_gradients(buffers, spans);
  CHECK(buffers[0].place == memory + 4096);
  CHECK(buffers[1].place == memory + 2 * 4096);
  CHECK(buffers[2].place == memory);
  CHECK(buffers[3].place == nullptr);
  CHECK(plan_memory(buffers) == 4096);
}
