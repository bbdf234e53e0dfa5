// Painting (propagation of precision) against TensorFlow: graphs and colors of its auto_mixed_precision_test.cc (NoOp,
// Simple, BidirectionalClearChain, PreserveCPUNodes, RepeatedAndListTypeAttrs, ExistingCast, FusedBatchNorm). Also
// against the definition of the passes by paths, evaluated by brute force on random graphs.
#include "precision/paint.h"

#include <catch2/catch_all.hpp>
#include <random>

#include "text_graph.h"

using namespace amp;
using namespace amp::test;

static std::string tensorflow(const std::string& text, DType low = DType::f16) {
  const SourceGraph g = text_graph(text);
  return named_types(g, decide(g, preset("tensorflow"), low));
}

TEST_CASE("TensorFlow NoOp: nothing is low without an allow node") {
  CHECK(tensorflow(R"(
    input x
    deny1 = Exp(x)
    clr1 = Relu(deny1)
    infer1 = Sqrt(clr1)
    clr2 = Relu(infer1)
    output clr2)") == "deny1:fp32 clr1:fp32 infer1:fp32 clr2:fp32");
}

TEST_CASE("TensorFlow Simple") {
  CHECK(tensorflow(R"(
    input x
    deny1 = Exp(x)
    clr1 = Relu(deny1)
    infer1 = Sqrt(clr1)
    clr2 = Relu(infer1)
    allow1 = MatMul(clr2, clr2)
    clr3 = Relu(allow1)
    infer2 = Log(clr3)
    clr4 = Relu(infer2)
    deny2 = ReduceSum(clr4)
    clr5 = Relu(deny2)
    output clr5)") ==
        "deny1:fp32 clr1:fp32 infer1:fp32 clr2:fp16 allow1:fp16 clr3:fp16 infer2:fp32 clr4:fp32 deny2:fp32 clr5:fp32");
}

TEST_CASE("TensorFlow BidirectionalClearChain: clear colour spreads up and down") {
  CHECK(tensorflow(R"(
    input x
    clr1 = Relu(x)
    clr2 = Relu(x)
    allow1 = MatMul(clr1, clr1)
    clr3 = Concat{axis=0}(clr1, clr2)
    clr4 = Relu(clr2)
    output allow1
    output clr4)") == "clr1:fp16 clr2:fp16 allow1:fp16 clr3:fp16 clr4:fp16");
}

TEST_CASE("TensorFlow infer between allow nodes") {
  CHECK(tensorflow(R"(
    input x
    param W 2 2
    allow1 = MatMul(x, W)
    infer1 = Tanh(allow1)
    allow2 = MatMul(infer1, W)
    output allow2)") == "allow1:fp16 infer1:fp16 allow2:fp16");
  CHECK(tensorflow(R"(
    input x
    clr1 = Relu(x)
    allow1 = MatMul(clr1, clr1)
    infer1 = Tanh(allow1)
    clr2 = Relu(infer1)
    output clr2)") == "clr1:fp16 allow1:fp16 infer1:fp32 clr2:fp32");
  CHECK(tensorflow(R"(
    input x
    allow1 = MatMul(x, x)
    clr1 = Identity(allow1)
    infer1 = Sum(clr1, clr1, clr1)
    allow2 = MatMul(infer1, infer1)
    output allow2)") == "allow1:fp16 clr1:fp16 infer1:fp16 allow2:fp16");
  CHECK(tensorflow(R"(
    input x
    param W 3 3
    param s 3
    allow1 = Conv(x, W)
    bn = BatchNormalization(allow1, s, s, s, s)
    infer1 = Add(bn, bn)
    allow2 = Conv(infer1, W)
    output allow2)",
                   DType::bf16) == "allow1:bf16 bn:bf16 infer1:bf16 allow2:bf16");
}

TEST_CASE("TensorFlow ExistingCast: from bool, when all readers are low") {
  const std::string text = R"(
    input b bool
    param W 2 2
    cst1 = Cast{to=1}(b)
    allow1 = MatMul(cst1, W)
    output allow1)";
  CHECK(tensorflow(text) == "cst1:fp16 allow1:fp16");
  std::string integers = text;
  integers.replace(integers.find("b bool"), 6, "b int64");
  CHECK(tensorflow(integers) == "cst1:fp32 allow1:fp16");
}

namespace {

// reach[a][b]: a path of at least one edge from a to b whose inner vertices all satisfy inner().
template <class Inner>
std::vector<std::vector<char>> reach(const std::vector<PaintVertex>& g, Inner inner) {
  const size_t n = g.size();
  std::vector<std::vector<char>> r(n, std::vector<char>(n, 0));
  for (size_t a = 0; a < n; ++a) {
    for (const int b : g[a].out) r[a][static_cast<size_t>(b)] = 1;
  }
  for (size_t k = 0; k < n; ++k) {
    if (!inner(k)) continue;
    for (size_t a = 0; a < n; ++a) {
      for (size_t b = 0; b < n; ++b) r[a][b] = r[a][b] || (r[a][k] && r[k][b]);
    }
  }
  return r;
}

std::vector<char> by_definition(const std::vector<PaintVertex>& g) {
  const size_t n = g.size();
  const auto is = [&](size_t v, OpClass c) { return g[v].cls == c; };
  const auto movable = [&](size_t v) { return is(v, OpClass::infer) || is(v, OpClass::clear); };
  const auto stops = [&](size_t v) { return is(v, OpClass::deny) || is(v, OpClass::infer); };
  const auto forward = reach(g, [&](size_t v) { return stops(v) || is(v, OpClass::clear); });
  const auto through_clear = reach(g, [&](size_t v) { return is(v, OpClass::clear); });
  std::vector<char> denied(n, 0), low(n, 0);
  // A vertex is denied if it is on a path from deny to a deny or infer vertex, including the end.
  for (size_t d = 0; d < n; ++d) {
    if (!is(d, OpClass::deny)) continue;
    denied[d] = 1;
    for (size_t v = 0; v < n; ++v) {
      if (!movable(v) || !forward[d][v]) continue;
      bool ahead = stops(v);
      for (size_t e = 0; e < n; ++e) ahead = ahead || (stops(e) && through_clear[v][e]);
      if (ahead) denied[v] = 1;
    }
  }
  const auto may = [&](size_t v) { return movable(v) && !denied[v] && !g[v].fixed; };
  const auto between = reach(g, may);
  for (size_t v = 0; v < n; ++v) {
    bool before = false, after = false;
    for (size_t a = 0; a < n; ++a) {
      if (!is(a, OpClass::allow) || g[a].fixed) continue;
      before = before || between[a][v];
      after = after || between[v][a];
    }
    low[v] = (is(v, OpClass::allow) && !g[v].fixed) || (may(v) && before && after);
  }
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t v = 0; v < n; ++v) {
      if (low[v] || !is(v, OpClass::clear) || !may(v)) continue;
      bool beside = false;
      for (const int u : g[v].in) beside = beside || low[static_cast<size_t>(u)];
      for (const int u : g[v].out) beside = beside || low[static_cast<size_t>(u)];
      if (beside) low[v] = changed = true;
    }
  }
  return low;
}

}  // namespace

TEST_CASE("painting equals its definition by paths on random graphs") {
  std::mt19937 random(5);
  for (int round = 0; round < 400; ++round) {
    const int n = 2 + static_cast<int>(random() % 22);
    std::vector<PaintVertex> g(static_cast<size_t>(n));
    for (int v = 0; v < n; ++v) {
      PaintVertex& p = g[static_cast<size_t>(v)];
      p.cls = static_cast<OpClass>(random() % 8 < 3 ? 1 + random() % 2 * 2 : random() % 4);
      p.fixed = random() % 12 == 0;
      for (int u = 0; u < v; ++u) {
        if (random() % static_cast<unsigned>(n) > 2) continue;
        p.in.push_back(u);
        g[static_cast<size_t>(u)].out.push_back(v);
      }
    }
    const std::vector<Painted> got = paint(g);
    const std::vector<char> want = by_definition(g);
    for (size_t v = 0; v < g.size(); ++v) {
      INFO("round " << round << " vertex " << v);
      REQUIRE(got[v].low == static_cast<bool>(want[v]));
    }
  }
}
