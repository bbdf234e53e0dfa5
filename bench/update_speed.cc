// Times the optimizer update on the CPU next to a plain copy of the bytes that it must move. An update reads weights,
// gradients and moments and writes all but the gradients. An earlier pass reads only the gradients (finite check,
// norm).
//   update_speed [RULE [MILLIONS OF PARAMETERS [ROUNDS]]]
// Update and copy alternate on the same threads. The ratio is taken within a round.
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "backend/cpu/update/optimizer.h"
#include "bench/timing.h"

using namespace amp;

namespace {

template <class F>
double seconds_of(F&& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// Copies in parallel. Each thread copies one large piece, for which memcpy uses non-temporal stores.
void copy_in_parallel(char* to, const char* from, int64_t bytes) {
#pragma omp parallel
  {
    const int64_t n = omp_get_num_threads(), i = omp_get_thread_num();
    const int64_t begin = bytes * i / n / 64 * 64, end = i + 1 == n ? bytes : bytes * (i + 1) / n / 64 * 64;
    std::memcpy(to + begin, from + begin, static_cast<size_t>(end - begin));
  }
}

void measure(const OptimizerConfig& config, int64_t n, int rounds) {
  constexpr int64_t kTensor = 4 << 20;
  std::vector<UpdateSpan> spans;
  for (int64_t at = 0; at < n; at += kTensor) {
    UpdateSpan span;
    span.begin = at;
    span.count = std::min(kTensor, n - at);
    span.dims = span.count == kTensor ? Dims{2048, kTensor / 2048} : Dims{span.count};
    spans.push_back(span);
  }
  std::vector<float> p(static_cast<size_t>(n), 0.5f), g(p.size());
  for (size_t i = 0; i < g.size(); ++i) g[i] = static_cast<float>(i % 1009) * 1e-3f - 0.5f;
  Optimizer<float> update(config, spans, n, p.data());
  const int64_t bytes = 4 * n * (1 + 1 + 2 * (1 + config.moments()));  // bytes read and written
  // A copy reads half of the bytes and writes half.
  const std::unique_ptr<char[]> from(new char[static_cast<size_t>(bytes / 2)]()),
      to(new char[static_cast<size_t>(bytes / 2)]());
  std::vector<double> updates, copies, ratios;
  for (int r = -1; r < rounds; ++r) {
    const double copy = seconds_of([&] { copy_in_parallel(to.get(), from.get(), bytes / 2); });
    const double step = seconds_of([&] { update.apply(p.data(), g.data(), 1, update.inspect(g.data(), 1), 1e-3); });
    if (r < 0) continue;  // the first round only touches the memory
    copies.push_back(copy);
    updates.push_back(step);
    ratios.push_back(step / copy);
  }
  std::printf("%s, %lld million parameters, %d threads, %d rounds\n", config.rule.c_str(),
              static_cast<long long>(n / 1000000), omp_get_max_threads(), rounds);
  std::printf("update %.1f ms, copy of %.2f GB read and written %.1f ms (%.1f GB/s), ratio %.2f (%.2f to %.2f)\n",
              median(updates) * 1e3, static_cast<double>(bytes) * 1e-9, median(copies) * 1e3,
              static_cast<double>(bytes) * 1e-9 / median(copies), median(ratios),
              *std::min_element(ratios.begin(), ratios.end()), *std::max_element(ratios.begin(), ratios.end()));
}

}  // namespace

int main(int argc, char** argv) {
  OptimizerConfig config;
  config.rule = update_rule_from_name(argc > 1 ? argv[1] : "adamw");
  config.settings = rule_settings(config.rule, {});
  config.weight_decay = 0.01;
  config.max_grad_norm = 1;
  const int64_t millions = argc > 2 ? std::atoll(argv[2]) : 100;
  const int rounds = argc > 3 ? std::atoi(argv[3]) : 9;
  if (millions < 1 || rounds < 1) {
    std::fprintf(stderr, "update_speed [RULE [MILLIONS OF PARAMETERS [ROUNDS]]]\n");
    return 2;
  }
  measure(config, millions * 1000000, rounds);
}
