// Residual additions and norms in one node: which nodes are fused, and that results do not change.
#include <catch2/catch_all.hpp>

#include "graph/passes.h"
#include "ops/passes/add_norm_fusion.h"
#include "tests/ops/same_graph.h"

using namespace amp;
using namespace amp::test;

namespace {

// Returns two transformer blocks with the norm after the sum (post-norm) or before the branch (pre-norm).
std::string block(bool norm_first, const std::string& dropout, const std::string& bias) {
  std::string t = R"(
    input x 4 6 16
    input tokens int64 24
    param U 16 16
    param u 16
    param V 16 16
    param v 16
    param g 16
    param h 16
    param k 16
    param l 16
    one, m0, r0 = LayerNorm(x, k, l) {n=16; epsilon=1e-5; rms=0}
)";
  const auto branch = [&](const std::string& from, const char* weight, const char* vector, int site) {
    t += "b = MatMul(" + from + ", " + weight + ")\n";
    if (!bias.empty()) t += "b = Add(b, " + std::string(vector) + ")\n";
    const std::string drop = dropout.find("length") == std::string::npos ? "Dropout(b)" : "TokenDropout(b, tokens)";
    if (!dropout.empty()) t += "b = " + drop + " {" + dropout + "; site=" + std::to_string(site) + "}\n";
  };
  branch("one", "U", "u", 1);
  t += norm_first ? "s = Add(x, b)\n" : "s = Add(b, one)\n";
  t += "two, m1, r1 = LayerNorm(s, g, h) {n=16; epsilon=1e-5; rms=0}\n";
  branch("two", "V", "v", 2);
  t += norm_first ? "e = Add(s, b)\n" : "e = Add(b, two)\n";
  t += "three, m2, r2 = LayerNorm(e, k) {n=16; epsilon=1e-5; rms=1}\n";
  t += "q = Mul(three, three)\nloss = ReduceSum(q) {axes=[0 1 2]; keepdims=0}\noutput three\noutput loss";
  return t;
}

}  // namespace

TEST_CASE("residual sums and norms become one node and compute the same bits") {
  for (const bool norm_first : {false, true}) {
    for (const char* dropout : {"", "ratio=0.25; rows=4", "ratio=0.25; rows=4; length=3"}) {
      for (const char* bias : {"", "yes"}) {
        const std::string text = block(norm_first, dropout, bias);
        INFO(text);
        const Graph g = training_graph(text), f = fuse_norms(g);
        CHECK(count(f, "AddNorm") == 2);
        CHECK(count(f, "LayerNorm") == 1);  // the first norm, which has no sum before it
        CHECK(count(f, "Dropout") == 0);
        CHECK(f.n_nodes() < g.n_nodes());
        check_equal(g, f);
      }
    }
  }
}

TEST_CASE("a sum that somebody reads before the norm, or that leaves the graph, is left alone") {
  const std::string head = "input x 4 8\nparam W 8 8\nparam g 8\nb = MatMul(x, W)\ns = Add(x, b)\n";
  const std::string tail = "y, m, r = LayerNorm(s, g) {n=8; epsilon=1e-5; rms=1}\n";
  const auto ops = [](const std::string& text) { return ops_of(fuse_norms(CoreText(text).graph)); };
  CHECK(ops(head + tail + "output y") == "MatMul AddNorm");
  CHECK(ops(head + tail + "t = Exp(s)\noutput y\noutput t") == "MatMul AddNorm Exp");
  CHECK(ops(head + "t = Exp(s)\n" + tail + "output y\noutput t") == "MatMul Add Exp LayerNorm");
  CHECK(ops(head + tail + "output y\noutput s") == "MatMul Add LayerNorm");
  // A bias that is broadcast within rows remains a separate addition.
  const std::string rows = "input x 4 8\nparam c 1 8\nparam g 8\ns = Add(x, c)\n";
  CHECK(ops(rows + tail + "output y") == "Add LayerNorm");
}

TEST_CASE("16-bit copies of a norm's result and of its gradient are made on the way") {
  const std::string f16 = "{to=" + std::to_string(static_cast<int>(DType::f16)) + "}";
  const Graph g = absorb_casts(
      CoreText(
          "input x 4 8\ninput a 4 8\nparam g 8\ns = Add(x, a)\ny, m, r = LayerNorm(s, g) {n=8; epsilon=1e-5; rms=1}\n"
          "c = Cast(y) " +
          f16 + "\nd = Exp(c)\noutput y\noutput d")
          .graph);
  const Graph f = fuse_norms(g);
  CHECK(ops_of(f) == "AddNorm Exp");
  check_equal(g, f);
}
