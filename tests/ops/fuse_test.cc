// fuse_elementwise: which nodes are fused, and that results are bit-identical (on the CPU; tests/cuda/fused_test.cc
// tests the device).
#include "ops/passes/fuse.h"

#include <catch2/catch_all.hpp>

#include "tests/graph/core_text.h"
#include "tests/ops/fuse_cases.h"
#include "tests/ops/one_node.h"

using namespace amp;
using namespace amp::test;

namespace {

std::string fused(const std::string& text, const FuseLimits& limits = {}) {
  return ops_of(fuse_elementwise(CoreText(text).graph, limits));
}
const std::string to16 = cat("{to=", static_cast<int>(DType::f16), "}");

}  // namespace

TEST_CASE("a chain becomes one node", "[fuse]") {
  const CoreText t("input x 4 8\nparam b 8\na = Add(x, b)\nc = Gelu(a)\nd = Mul(c, x)\noutput d");
  const Graph g = fuse_elementwise(t.graph);
  CHECK(text_of(g) == "t0 float32[4,8] = Fused(x, b)\noutput d = t0\n");
  CHECK(g.node(NodeId{0}).attrs.s("program", "") == "Add float32 0 1\nGelu float32 2\nMul float32 3 0 out");
}

TEST_CASE("what others read is stored too", "[fuse]") {
  const CoreText t("input x 4 8\na = Exp(x)\nc = Neg(a)\noutput c\noutput a");
  const Graph g = fuse_elementwise(t.graph);
  CHECK(text_of(g) == "t0 float32[4,8], t1 float32[4,8] = Fused(x)\noutput c = t1\noutput a = t0\n");
}

TEST_CASE("nodes stay apart", "[fuse]") {
  // These nodes are not fused: another shape, a view in between, a parameter's cast (which the cast cache keeps),
  // integers.
  CHECK(fused("input x 8\ninput y 4 8\na = Exp(x)\nc = Add(y, a)\noutput c") == "Exp Add");
  CHECK(fused("input x 4 8\na = Exp(x)\nr = Reshape(a) {dims=[32]}\nc = Neg(r)\noutput c") == "Exp Reshape Neg");
  CHECK(fused("param w 8\na = Cast(w) " + to16 + "\nc = Exp(a)\noutput c") == "Cast Exp");
  CHECK(fused("input x i64 8\na = Add(x, x)\nc = Neg(a)\noutput c") == "Add Neg");
  // These nodes are not fused either: neighbors that are not connected, and nodes beyond the limits of a group.
  CHECK(fused("input x 8\na = Exp(x)\nc = Neg(x)\noutput a\noutput c") == "Exp Neg");
  CHECK(fused("input x 8\na = Exp(x)\nb = Sin(a)\nc = Neg(b)\noutput c", {2, 12, 6}) == "Fused Neg");
  CHECK(fused("input x 8\ninput y 8\ninput z 8\na = Add(x, y)\nb = Mul(a, z)\noutput b", {24, 2, 6}) == "Add Mul");
  CHECK(fused("input x 8\na = Exp(x)\nb = Sin(a)\noutput a\noutput b", {24, 12, 1}) == "Exp Sin");
}

TEST_CASE("a circle is never made", "[fuse]") {
  // If a and d were one node, the sum s would read that node, which also reads s.
  CHECK(fused("input x 4 8\na = Exp(x)\ns = ReduceSum(a) {axes=[1]; keepdims=1}\nd = Div(a, s)\noutput d") ==
        "Exp ReduceSum Div");
  // n depends on the sum of p and also reads p, so n and p cannot be fused. q and n can.
  const std::string text =
      "input x 4 8\np = Exp(x)\ns = ReduceSum(p) {axes=[1]; keepdims=1}\nq = Mul(x, s)\nn = Add(p, q)\noutput n";
  CHECK(fused(text) == "Exp ReduceSum Fused");
}

TEST_CASE("a fused node comes before those who wait for it", "[fuse]") {
  const std::string text =
      "input x 4 8\na = Exp(x)\ns = ReduceSum(a) {axes=[1]; keepdims=1}\nb = Neg(a)\nc = Mul(s, s)\noutput b\noutput c";
  CHECK(fused(text) == "Fused ReduceSum Mul");
}

TEST_CASE("a sum down columns is taken with what is stored", "[fuse]") {
  const std::string chain = "input x 40 8\ninput y 40 8\na = Mul(x, y)\nd = Relu(a)\noutput d\n";
  const CoreText t(chain + "s = ReduceSum(d) {axes=[0]; keepdims=0}\noutput s");
  const Graph g = fuse_elementwise(t.graph);
  CHECK(text_of(g) == "t0 float32[40,8], t1 float32[8] = Fused(x, y)\noutput d = t0\noutput s = t1\n");
  CHECK(g.node(NodeId{0}).attrs.s("program", "") ==
        "Mul float32 0 1\nRelu float32 2 out\nReduceSum float32 3 {axes=s0 keepdims=i0} out");
  // A single node and its sum are fused, too. Sums along rows, over few rows, or of values that are not stored stay
  // separate.
  CHECK(fused("input x 40 8\nd = Relu(x)\ns = ReduceSum(d) {axes=[0]; keepdims=0}\noutput d\noutput s") == "Fused");
  CHECK(fused(chain + "s = ReduceSum(d) {axes=[1]; keepdims=0}\noutput s") == "Fused ReduceSum");
  CHECK(fused("input x 4 8\nd = Relu(x)\ns = ReduceSum(d) {axes=[0]; keepdims=0}\noutput d\noutput s") ==
        "Relu ReduceSum");
  CHECK(fused("input x 40 8\nd = Relu(x)\ns = ReduceSum(d) {axes=[0]; keepdims=0}\noutput s") == "Relu ReduceSum");
}

TEST_CASE("random graphs compute the same bits when fused", "[fuse]") {
  size_t nodes = 0, left = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    INFO("seed " << seed);
    const RandomGraph r(seed);
    const Graph g = fuse_elementwise(r.graph);
    nodes += static_cast<size_t>(r.graph.n_nodes());
    left += static_cast<size_t>(g.n_nodes());
    const std::vector<HostTensor> before = r.run(r.graph, cpu_device()), after = r.run(g, cpu_device());
    REQUIRE(before.size() == after.size());
    for (size_t i = 0; i < before.size(); ++i) CHECK(same_bits(before[i], after[i]));
  }
  CHECK(left * 2 < nodes);
}
