// The gradient cache with outputs, cache and losses in device memory.
#include "trainer/loop/gradient_cache.h"

#include <algorithm>
#include <catch2/catch_all.hpp>
#include <cmath>

#include "tests/emulator/emulated_device.h"
#include "tests/trainer/small_run.h"
#include "trainer/compile/host_terms.h"
#include "trainer/loop/micro_batches.h"

using namespace amp;
using namespace amp::test;

namespace {

const char* const kEncoder = R"(
    input x
    param W1 6 24
    param b1 24
    param W2 24 8
    p = MatMul(x, W1)
    s = Add(p, b1)
    h = Tanh(s)
    d = Dropout{ratio=0.2,site=5}(h)
    y = MatMul(d, W2)
    output y)";

struct Found {
  std::vector<double> sums, gradients;
};

Found cached(GradientCache& cache, Session& session, const std::vector<Tensors>& batches, double scale) {
  HostTerms terms(session.device(), {scale});
  cache.launch(batches, rows_before({8, 8, 4}), 20, terms);
  return {terms.sums(), session.host_grads().to_doubles()};
}

double largest(const std::vector<double>& v) {
  double m = 0;
  for (const double x : v) m = std::max(m, std::abs(x));
  return m;
}

}  // namespace

TEST_CASE("a cached window on a device is the CPU's", "[cuda][gradient_cache]") {
  const bool low = GENERATE(false, true);
  const SourceGraph source = random_graph(kEncoder, "W1 0.6\nb1 0.1\nW2 0.4");
  const auto device = cuda::make_emulated_device();
  SessionOptions host, emulated;
  if (low) host.compute.assign(source.nodes.size(), DType::f16);
  emulated.compute = host.compute;
  emulated.device = device.get();
  Session a(source, host), b(source, emulated);
  const Losses losses = LossSpec{"multiple_negatives", {"y"}};
  GradientCache on_host(a, losses), on_device(b, losses);
  const double scale = low ? 256 : 0.1;
  for (int step = 0; step < 4; ++step) {  // steps are recorded as a CUDA graph from the third one on
    INFO("step " << step);
    a.state().step = b.state().step = step;
    std::vector<Tensors> batches;
    for (const int64_t rows : {8, 8, 4}) batches.push_back({{"x", normal({rows, 6}, 1, 10 * step + batches.size())}});
    const Found want = cached(on_host, a, batches, scale), got = cached(on_device, b, batches, scale);
    REQUIRE(got.gradients.size() == want.gradients.size());
    // fp32 sums have another order. In 16 bits some elements round differently, by 2^-11 of their value.
    const double tolerance = low ? 4e-3 : 1e-5;
    CHECK(got.sums[0] == Catch::Approx(want.sums[0]).epsilon(tolerance));
    double worst = 0;
    for (size_t i = 0; i < want.gradients.size(); ++i)
      worst = std::max(worst, std::abs(got.gradients[i] - want.gradients[i]));
    CHECK(worst <= tolerance * largest(want.gradients));
    CHECK(cached(on_device, b, batches, scale).gradients == got.gradients);
  }
}
