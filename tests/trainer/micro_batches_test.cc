// launch_micro_batches(), through which all micro-batches run, and the parameters that they read.
#include "trainer/loop/micro_batches.h"

#include <algorithm>
#include <catch2/catch_all.hpp>
#include <cmath>

#include "small_run.h"

using namespace amp;
using namespace amp::test;

namespace {

const char* const kModel = R"(
    input x
    param W1 6 8
    param W2 8 3
    p = MatMul(x, W1)
    h = Tanh(p)
    logits = MatMul(h, W2)
    output logits)";

Losses cross_entropy() {
  LossSpec s;
  s.outputs = {"logits"};
  s.label = "label";
  return s;
}

Tensors rows(const Tensors& batch, size_t begin, size_t end) {
  const std::vector<double> x = batch.at("x").to_doubles();
  const std::vector<int64_t> label = batch.at("label").to_ints();
  const auto n = static_cast<int64_t>(end - begin);
  const auto part = [&](const auto& v, size_t width) {
    return std::vector(v.begin() + static_cast<std::ptrdiff_t>(begin * width),
                       v.begin() + static_cast<std::ptrdiff_t>(end * width));
  };
  return {{"x", HostTensor::of<double>({n, 6}, part(x, 6)).cast(DType::f32)},
          {"label", HostTensor::of<int64_t>({n}, part(label, 1))}};
}

}  // namespace

TEST_CASE("a window's micro-batches have the losses and gradients of one batch") {
  const SourceGraph source = random_graph(kModel, "W1 0.5 W2 0.5");
  const Losses losses = cross_entropy();
  const Tensors batch{{"x", normal({8, 6}, 1, 3)}, {"label", HostTensor::of<int64_t>({8}, {0, 1, 2, 0, 2, 2, 1, 0})}};
  Session session(source, {});
  const auto gradients = [&](const std::vector<Tensors>& batches, std::vector<double>& sums) {
    sums = run_micro_batches(session, losses, batches, {0.125});
    return session.host_grads().to_doubles();
  };
  std::vector<double> whole, parts;
  const std::vector<double> want = gradients({batch}, whole);
  // Gradients of an earlier window are not added again.
  for (int round = 0; round < 2; ++round) {
    const std::vector<double> got = gradients({rows(batch, 0, 3), rows(batch, 3, 8)}, parts);
    REQUIRE(got.size() == want.size());
    CHECK(parts.at(0) == Catch::Approx(whole.at(0)).epsilon(1e-6));
    // Tolerance: fp32 sums of 8 products of numbers near 1, in another order.
    for (size_t i = 0; i < want.size(); ++i) CHECK(std::abs(got[i] - want[i]) <= 1e-6);
  }
  CHECK(session.state().samples_before == 3);
}

TEST_CASE("whoever instruments a micro-batch is given its Program, fused or not, and runs it") {
  const SourceGraph source = random_graph(kModel, "W1 0.5 W2 0.5");
  const Losses losses = cross_entropy();
  const Tensors batch{{"x", normal({4, 6}, 1, 3)}, {"label", HostTensor::of<int64_t>({4}, {0, 1, 2, 0})}};
  Session session(source, {});
  const std::vector<double> plain = run_micro_batch(session, losses, batch, {1});
  size_t seen = 0;
  const Instrumentation look{[&](Program& p) { p.run([&](const Node&, size_t, const Tensor&) { ++seen; }); }, false};
  CHECK(run_micro_batch(session, losses, batch, {1}, false, &look) == plain);
  CHECK(seen > 0);
}

TEST_CASE("the 16-bit copies follow parameters that are set") {
  const SourceGraph source = random_graph(kModel, "W1 0.5 W2 0.5");
  SessionOptions options;
  options.compute.assign(source.nodes.size(), DType::f16);
  Session session(source, options);
  const Tensors batch{{"x", normal({4, 6}, 1, 3)}};
  const std::vector<int> logits{source.find("logits")};
  const auto largest = [&] {
    double m = 0;
    for (const double v : session.forward(logits, batch).at("logits").to_doubles()) m = std::max(m, std::abs(v));
    return m;
  };
  CHECK(largest() > 0);
  CHECK(session.copies().size() > 0);
  session.set_params(HostTensor::zeros(DType::f32, {session.layout().size()}));
  CHECK(largest() == 0);
}
