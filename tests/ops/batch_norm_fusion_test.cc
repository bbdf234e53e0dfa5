// Batch normalization and the following activation in one node: which nodes are fused, and that the bits do not change.
#include "ops/passes/batch_norm_fusion.h"

#include <catch2/catch_all.hpp>

#include "graph/passes.h"
#include "tests/ops/same_graph.h"

using namespace amp;
using namespace amp::test;

namespace {

// Returns a network. norm: the normalization of x (3, 5, places) with scale g and bias h; activation:
// the node after it.
std::string net(const std::string& dims, const std::string& norm, const std::string& activation) {
  return "input x " + dims + "\nparam r " + dims +
         "\nparam g 5\nparam h 5\nparam m 5\nparam w 5\nx = Add(x, r)\nv = Mul(w, w)\n" + norm + "\nz = " + activation +
         "\nq = Mul(z, z)\nloss = ReduceSum(q) {axes=[0 1 2]; keepdims=0}\noutput z\noutput loss";
}

constexpr const char* kTrain = "y, mean, var = BatchNormTrain(x, g, h) {epsilon=1e-5}";
constexpr const char* kFrozen = "y = BatchNorm(x, g, h, m, v) {epsilon=1e-5}";

}  // namespace

TEST_CASE("a normalization and its activation are one node, and their gradients", "[batch_norm_fusion]") {
  for (const char* dims : {"3 5 7", "3 5 300", "40 5 1"}) {
    for (const char* norm : {kTrain, kFrozen}) {
      for (const char* activation : {"Relu(y)", "Clip(y) {min=0.0; max=0.5}", "Clip(y) {min=-0.25}"}) {
        INFO(dims << ' ' << norm << ' ' << activation);
        const Graph g = training_graph(net(dims, norm, activation)), f = activate_batch_norms(g);
        CHECK(f.n_nodes() == g.n_nodes() - 2);
        CHECK(count(f, "Relu") + count(f, "Clip") + count(f, "ReluGrad") + count(f, "ClipGrad") == 0);
        CHECK(count(f, "BatchNormGrad") == 1);
        check_equal(g, f);
      }
    }
  }
}

TEST_CASE("a normalization that something else reads, or that leaves the graph, keeps its own node",
          "[batch_norm_fusion]") {
  const std::string relu = net("3 5 7", kTrain, "Relu(y)");
  CHECK(count(activate_batch_norms(training_graph(relu + "\noutput y")), "Relu") == 1);
  const Graph twice = training_graph(net("3 5 7", kTrain, "Relu(y)\nz = Add(z, y)"));
  CHECK(count(activate_batch_norms(twice), "Relu") == 1);
  check_equal(twice, activate_batch_norms(twice));
  const Graph none = training_graph(net("3 5 7", kTrain, "Exp(y)"));
  CHECK(activate_batch_norms(none).n_nodes() == none.n_nodes());
}

TEST_CASE("a forward graph has the activation in its normalization, too", "[batch_norm_fusion]") {
  const Graph g = CoreText(net("3 5 7", kFrozen, "Relu(y)")).graph, f = activate_batch_norms(g);
  CHECK(f.n_nodes() == g.n_nodes() - 1);
  check_equal(g, f);
}

TEST_CASE("of 16 bits, what rounding cannot tell apart is one node", "[batch_norm_fusion]") {
  const auto in = [](DType t, const std::string& activation, const std::string& dims = "3 5 7") {
    const auto to = [](DType d) { return "{to=" + std::to_string(static_cast<int>(d)) + "}"; };
    return training_graph(
        "input x " + dims + "\nparam r " + dims + "\nparam g 5\nparam h 5\nx = Add(x, r)\nc = Cast(x) " + to(t) +
        "\ny, mean, var = BatchNormTrain(c, g, h) {epsilon=1e-5}\nz = " + activation + "\nz = Cast(z) " +
        to(DType::f32) + "\nq = Mul(z, z)\nloss = ReduceSum(q) {axes=[0 1 2]; keepdims=0}\noutput z\noutput loss");
  };
  // Planes are small (sums run over several images) or large.
  for (const char* dims : {"3 5 7", "3 5 300", "2 5 131", "60 5 30", "7 5 3000"}) {
    for (const char* activation :
         {"Relu(y)", "Clip(y) {min=0.0; max=0.5}", "Clip(y) {min=-0.25}", "Clip(y) {max=-0.75}"}) {
      INFO(dims << ' ' << activation);
      const Graph g = in(DType::bf16, activation, dims), f = activate_batch_norms(g);
      CHECK(count(f, "Relu") + count(f, "ReluGrad") + count(f, "Clip") + count(f, "ClipGrad") == 0);
      check_equal(g, f);
    }
  }
  for (const Graph& other : {in(DType::bf16, "Clip(y) {min=0.0; max=0.3}"), in(DType::f16, "Relu(y)"),
                             in(DType::f16, "Clip(y) {min=0.0; max=0.5}")})
    CHECK(activate_batch_norms(other).n_nodes() == other.n_nodes());
}
