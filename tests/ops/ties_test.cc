// Gradients at ties, and values far from 0, against PyTorch 2.11 (CPU, fp64; upstream gradient 6 in every element).
#include <catch2/catch_all.hpp>
#include <limits>

#include "tests/ops/one_node.h"

using namespace amp;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
using V = std::vector<double>;

NodeRun reduced(const std::string& op, const Dims& dims, const V& x, DType t) {
  OneNode n;
  n.op = op;
  n.version = 13;
  n.attrs = {{"axes", std::vector<int64_t>{1}}, {"keepdims", int64_t{0}}};
  n.inputs = {HostTensor::of<double>(dims, x)};
  return run_node(n, HostTensor::of<double>({dims[0]}, V(static_cast<size_t>(dims[0]), 6.0)), {0}, t);
}
V doubles(const HostTensor& t) { return t.to_doubles(); }

}  // namespace

TEST_CASE("elements that tie for an extreme share its gradient", "[ties]") {
  for (const DType t : {DType::f64, DType::f32}) {
    const NodeRun most = reduced("ReduceMax", {3, 4}, {1, 3, 3, 0, 2, 2, 2, 2, -kInf, -kInf, -kInf, -kInf}, t);
    CHECK(doubles(most.outputs[0]) == V{3, 2, -kInf});
    CHECK(doubles(most.grads.at(0)) == V{0, 3, 3, 0, 1.5, 1.5, 1.5, 1.5, 1.5, 1.5, 1.5, 1.5});
    const NodeRun least = reduced("ReduceMin", {2, 4}, {1, 3, 1, 1, 2, 2, 2, 2}, t);
    CHECK(doubles(least.grads.at(0)) == V{2, 0, 2, 2, 1.5, 1.5, 1.5, 1.5});
  }
}

TEST_CASE("a norm or a product that is 0 has PyTorch's gradient", "[ties]") {
  const NodeRun norm = reduced("ReduceL2", {2, 3}, {0, 0, 0, 3, 4, 0}, DType::f64);
  CHECK(distance(norm.grads.at(0), HostTensor::of<double>({2, 3}, V{0, 0, 0, 3.6, 4.8, 0})) < 1e-15);
  const NodeRun product = reduced("ReduceProd", {2, 3}, {0, 3, 2, 0, 0, 2}, DType::f64);
  CHECK(doubles(product.grads.at(0)) == V{36, 0, 0, 0, 0, 0});
}

TEST_CASE("the logarithm of a sum of exponentials is right far from 0 and of nothing", "[ties]") {
  const NodeRun r =
      reduced("ReduceLogSumExp", {5, 3},
              {-kInf, -kInf, -kInf, 1e9, 1e9, 1e9, 0, 0, -kInf, -1e9, -1e9, -1e9, kInf, 0, 0}, DType::f64);
  CHECK(doubles(r.outputs[0]) == V{-kInf, 1000000001.0986123, 0.6931471805599453, -999999998.9013877, kInf});
  const V g = doubles(r.grads.at(0));
  // PyTorch gives NaN to the first row. Here its gradient is 0, as for a softmax row without unmasked keys.
  CHECK(V(g.begin(), g.begin() + 3) == V{0, 0, 0});
  for (const size_t i : {3, 4, 5, 9, 10, 11}) CHECK(std::abs(g[i] - 2) < 1e-12);
  CHECK(V(g.begin() + 6, g.begin() + 9) == V{3, 3, 0});
}

TEST_CASE("a number that is added to all logits changes no log-softmax", "[ties]") {
  OneNode n;
  n.op = "LogSoftmax";
  for (const double shift : {0.0, 1e9, -1e9, 3e38}) {
    n.inputs = {HostTensor::of<double>({1, 3}, V(3, shift))};
    const NodeRun r = run_node(n, HostTensor::of<double>({1, 3}, V{6, 0, 0}), {0}, DType::f32);
    CHECK(distance(r.outputs[0], HostTensor::of<double>({1, 3}, V(3, -1.0986122886681098))) < 1e-7);
    CHECK(distance(r.grads.at(0), HostTensor::of<double>({1, 3}, V{4, -2, -2})) < 1e-6);
  }
}
