// Decomposition of operators (graph/decompositions.h): which operators are decomposed, how far, and which are kept.
// tests/ops/second_gradient_test.cc checks that values do not change.
#include "graph/decompositions.h"

#include <catch2/catch_all.hpp>
#include <set>

#include "tests/graph/core_text.h"

using namespace amp;
using namespace amp::test;

namespace {

std::multiset<std::string> operators(const Graph& g) {
  std::multiset<std::string> out;
  for (int32_t n = 0; n < g.n_nodes(); ++n) out.insert(g.node(NodeId{n}).op->name);
  return out;
}

}  // namespace

TEST_CASE("a gradient that is one kernel becomes operators that have gradients, for the same source node") {
  const CoreText t("param w 3\ninput dy 3\ny = Tanh(w)@4\ndx = TanhGrad(y, dy)@4\noutput dx");
  const Graph g = decompose_operators(t.graph, cpu_evaluator());
  CHECK(operators(g) == std::multiset<std::string>{"Mul", "Mul", "Sub", "Tanh"});
  for (int32_t n = 0; n < g.n_nodes(); ++n) {
    CHECK(g.node(NodeId{n}).op->gradient != nullptr);
    CHECK(g.node(NodeId{n}).origin.source_node == 4);
  }
  REQUIRE(g.outputs.size() == 1);
  CHECK(g.outputs[0].name == "dx");
}

TEST_CASE("what a definition is made of is spelled out too") {
  const CoreText t(
      "param q 1 2 3 4\nparam k 1 2 3 4\nparam v 1 2 3 4\ninput dy 1 2 3 4\n"
      "y, lse, rest = FusedAttention(q, k, v) {heads_first=1}\n"
      "dq, dk, dv = FusedAttentionGrad(q, k, v, , , y, lse, dy, rest) {heads_first=1}\noutput dq\noutput dk\noutput "
      "dv");
  const std::multiset<std::string> ops = operators(decompose_operators(t.graph, cpu_evaluator()));
  CHECK(ops.count("FusedAttentionGrad") == 0);
  CHECK(ops.count("SoftmaxGrad") == 0);  // the decomposition contains a SoftmaxGrad, which is decomposed, too
  CHECK(ops.count("Softmax") == 1);
  CHECK(ops.count("FusedAttention") == 0);  // nothing reads its results after the decomposition
}

TEST_CASE("a graph without such operators stays what it is") {
  const CoreText t("param w 3\na = Exp(w)\nb = Mul(a, w)\noutput b");
  CHECK(decompose_operators(t.graph, cpu_evaluator()).dump() == t.graph.dump());
}
