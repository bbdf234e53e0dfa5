// A second run of a Program allocates no memory. This binary counts all calls of malloc and related functions (operator
// new calls malloc).
#include <errno.h>
#include <malloc.h>
#include <omp.h>

#include <atomic>
#include <catch2/catch_all.hpp>
#include <vector>

#include "backend/program.h"
#include "tests/backend/small_nets.h"

namespace {
std::atomic<bool> counting{false};
std::atomic<int64_t> calls{0};
constexpr bool kCounts = !TEST_SANITIZED;  // a sanitizer replaces malloc
}  // namespace

#if !TEST_SANITIZED
namespace {
void count() {
  if (counting.load(std::memory_order_relaxed)) calls.fetch_add(1, std::memory_order_relaxed);
}
}  // namespace

extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);

void* malloc(size_t n) {
  count();
  return __libc_malloc(n);
}
void* calloc(size_t n, size_t size) {
  count();
  return __libc_calloc(n, size);
}
void* realloc(void* p, size_t n) {
  count();
  return __libc_realloc(p, n);
}
void* memalign(size_t align, size_t n) {
  count();
  return __libc_memalign(align, n);
}
void* aligned_alloc(size_t align, size_t n) {
  count();
  return __libc_memalign(align, n);
}
int posix_memalign(void** to, size_t align, size_t n) {
  count();
  *to = __libc_memalign(align, n);
  return *to ? 0 : ENOMEM;
}
}
#endif

using namespace amp;
using namespace amp::test;

TEST_CASE("the counter counts") {
  if (!kCounts) SKIP("memory is the sanitizer's");
  calls = 0;
  counting = true;
  std::vector<int>* v = new std::vector<int>(100);
  counting = false;
  delete v;
  CHECK(calls == 2);  // one call for the vector, one for its elements
}

TEST_CASE("the second run of a Program allocates nothing") {
  if (!kCounts) SKIP("memory is the sanitizer's");
  constexpr int kThreads = 2;  // with one thread, libgomp itself allocates for each region
  const int before = omp_get_max_threads();
  omp_set_num_threads(kThreads);
  for (const Net& net : small_nets()) {
    for (const bool accumulate : {false, true}) {
      DYNAMIC_SECTION(net.name << (accumulate ? ", accumulating" : "")) {
        const Graph g = training_graph(net.text);
        std::vector<HostTensor> params = random_params(g, 1), grads;
        HostArena arena;
        RunState state;
        ProgramOptions o;
        o.arena = &arena;
        o.state = &state;
        o.accumulate = accumulate;
        for (HostTensor& p : params) {
          grads.push_back(HostTensor::zeros(DType::f32, p.dims()));
          o.params.push_back({p.mutable_data(), p.dtype(), p.dims()});
          o.grads.push_back({grads.back().mutable_data(), DType::f32, p.dims()});
        }
        Program p(std::make_shared<Graph>(g), o);
        const auto inputs = random_inputs(g, 1);
        const auto runs = [&](int n) {
          calls = 0;
          for (int i = 0; i < n; ++i) {
            for (const auto& [name, t] : inputs) p.set_input(name, t);
            counting = true;
            p.run();
            counting = false;
          }
          return calls.load();
        };
        // Shards go to the next free thread. A thread's scratch (backend/rows.h) grows at its first row of this length.
        // One allocation per step would be 32 per thread.
        runs(4);
        CHECK(runs(32 * kThreads) <= 8 * kThreads);
      }
    }
  }
  omp_set_num_threads(before);
}
