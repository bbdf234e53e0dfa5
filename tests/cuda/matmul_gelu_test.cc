// Matrix product and GELU in one node: which nodes are fused, that results do not change, and the guarded library call.
#include "ops/matmul_gelu.h"

#include <catch2/catch_all.hpp>
#include <cmath>

#include "backend/cuda/library_product.h"
#include "backend/interpreter.h"
#include "tests/backend/small_nets.h"
#include "tests/cuda/fake_clock.h"
#include "tests/cuda/on_device.h"
#include "tests/ops/one_node.h"

using namespace amp;
using namespace amp::test;

namespace {

const char* const kBlock = R"(
  input x 3 5 8
  param U 8 16
  param u 16
  param V 16 8
  h = MatMul(x, U, u)
  g = GeluTanh(h)
  y = MatMul(g, V)
  q = Mul(y, y)
  loss = ReduceSum(q) {axes=[0 1 2]; keepdims=0}
  output y
  output loss)";

// A fake library: GELU and its gradient in fp32, multiplied by an error factor.
struct FakeGelu final : WithClock<cuda::LibraryProduct> {
  cuda::EpilogueProduct what;
  double factor = 1;
  int* all_runs = nullptr;
  FakeGelu() { memory = true; }
  bool may_wait() const override { return true; }
  bool run(const void* a, const void* b, void* c, void* extra) override {
    ++runs;
    ++*all_runs;
    const cuda::Gemm& g = what.gemm;
    const auto *x = static_cast<const float*>(a), *y = static_cast<const float*>(b),
               *bias = static_cast<const float*>(g.bias);
    for (int64_t i = 0; i < g.m; ++i) {
      for (int64_t j = 0; j < g.n; ++j) {
        double p = bias ? bias[j] : 0;
        for (int64_t k = 0; k < g.k; ++k)
          p += g.alpha * x[g.trans_a ? k * g.m + i : i * g.k + k] * y[g.trans_b ? j * g.k + k : k * g.n + j];
        float& more = static_cast<float*>(extra)[i * g.n + j];
        const auto gelu = [](double v) {
          return 0.5 * v * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v)));
        };
        double r = gelu(p);
        if (what.epilogue == cuda::Epilogue::gelu)
          more = static_cast<float>(p);
        else
          r = p * (gelu(more + 1e-5) - gelu(more - 1e-5)) / 2e-5;
        static_cast<float*>(c)[i * g.n + j] = static_cast<float>(factor * r);
      }
    }
    return true;
  }
};

}  // namespace

TEST_CASE("a product and its GELU become one node and compute the same bits", "[cuda]") {
  const Graph g = training_graph(kBlock), f = fuse_gelu(g);
  CHECK(f.n_nodes() == g.n_nodes() - 2);
  CHECK(ops_of(f).find("MatMulGelu ") != std::string::npos);
  CHECK(ops_of(f).find("MatMulGeluGrad") != std::string::npos);
  const auto inputs = random_inputs(g, 3);
  const auto params = random_params(g, 4);
  const Interpreted a = interpret(g, inputs, params), b = interpret(f, inputs, params);
  for (const auto& [name, t] : a.outputs) CHECK(same_bits(t, b.outputs.at(name)));
  for (const auto& [slot, t] : a.param_grads) CHECK(same_bits(t, b.param_grads.at(slot)));
  // The erf form is not fused, nor is a product's gradient with other readers.
  CHECK(ops_of(fuse_gelu(CoreText("input x 2 4\nparam W 4 4\nh = MatMul(x, W)\ny = Gelu(h)\noutput y").graph)) ==
        "MatMul Gelu");
}

TEST_CASE("a library's GELU is used after it has agreed, else dropped", "[cuda]") {
  const std::vector<HostTensor> in{draw({6, 12}, 1), draw({12, 20}, 2), draw({20}, 3)};
  const std::vector<HostTensor> back{draw({6, 12}, 1), draw({12, 20}, 2), draw({6, 20}, 3)};
  for (const bool gradient : {false, true}) {
    const char* const op = gradient ? "MatMulGeluGrad" : "MatMulGelu";
    const auto& operands = gradient ? back : in;
    const auto want = on_cpu(op, operands, {});
    for (const double factor : {1.0, 1.5}) {
      const auto device = cuda::make_emulated_device();
      int runs = 0, asked = 0;
      device->products = [&](const cuda::EpilogueProduct& p) {
        ++asked;
        CHECK(p.epilogue == (gradient ? cuda::Epilogue::gelu_gradient : cuda::Epilogue::gelu));
        CHECK((p.gemm.bias != nullptr) == !gradient);
        const auto fake = std::make_shared<FakeGelu>();
        fake->what = p;
        fake->factor = factor;
        fake->all_runs = &runs;
        return fake;
      };
      OnDevice node(*device, op, operands, {}, DType::f32);
      for (int round = 0; round < 3; ++round) {
        const auto got = node.run(operands);
        for (size_t i = 0; i < got.size(); ++i) CHECK(worst(got[i], want[i]) < 1e-3);
      }
      CHECK(asked == 1);
      CHECK(runs == (factor == 1 ? 3 : 1));
    }
  }
}
