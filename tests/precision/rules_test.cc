// Rules of an op list and fused operators: which nodes a rule matches, and its priority over painting.
#include <catch2/catch_all.hpp>

#include "base/error.h"
#include "precision/decide.h"
#include "text_graph.h"

using namespace amp;
using namespace amp::test;

namespace {

// Scores, a mask of -FLT_MAX, softmax.
const char* const kMasked = R"(
    input x
    input mask int64
    param W 4 4
    const lowest = -3.4028235e38
    maskf = Cast{to=1}(mask)
    bias = Mul(maskf, lowest)
    scores = MatMul(x, W)
    masked = Add(scores, bias)
    p = Softmax{axis=-1}(masked)
    output p)";

// GELU of a product with W, as exporters write it.
const std::string kGelu = R"(
    const half = 0.5
    const one = 1
    const root2 = 1.4142135
    in = MatMul(x, W)
    v = Div(in, root2)
    e = Erf(v)
    t = Add(e, one)
    a = Mul(in, t)
    gelu = Mul(a, half))";

}  // namespace

TEST_CASE("spelled-out units are painted as one and take the class of their kind") {
  const SourceGraph g = text_graph(R"(
    input x
    param W 4 4
    param gamma 4
    const two = 2
    const eps = 1e-12)" + kGelu + R"(
    ff = MatMul(gelu, W)
    mean = ReduceMean{axes=[-1]}(ff)
    d = Sub(ff, mean)
    sq = Pow(d, two)
    var = ReduceMean{axes=[-1]}(sq)
    ve = Add(var, eps)
    s = Sqrt(ve)
    n = Div(d, s)
    ln = Mul(n, gamma)
    out = MatMul(ln, W)
    output out)");
  const std::string norm[] = {"mean", "d", "sq", "var", "ve", "s", "n", "ln"};
  const std::string gelu[] = {"v", "e", "t", "a", "gelu"};
  const PrecisionPlan o1 = decide(g, preset("O1"), DType::f16);
  for (const std::string& node : norm) CHECK(decision(g, o1, node).compute == Compute::f32);
  for (const std::string& node : gelu) CHECK(decision(g, o1, node).compute == Compute::f16);
  CHECK(decision(g, o1, "sq").rule == "deny list of O1 (LayerNormalization of 8 nodes)");
  const PrecisionPlan o2 = decide(g, preset("O2"), DType::f16), o3 = decide(g, preset("O3"), DType::f16);
  for (const std::string& node : norm) {
    CHECK(decision(g, o2, node).compute == Compute::f32);
    CHECK(decision(g, o3, node).compute == Compute::f16);
  }
  // A rule for the kind applies to all its nodes, a rule for one node to that node.
  const PrecisionPlan kind =
      plan_of(g, R"({"version": 1, "rules": [{"op": "LayerNormalization", "precision": "low"}]})");
  for (const std::string& node : norm) CHECK(decision(g, kind, node).compute == Compute::f16);
  const PrecisionPlan one = plan_of(g, R"({"version": 1, "rules": [{"node": "a", "precision": "fp32"}]})");
  for (const std::string& node : gelu) {
    CHECK(decision(g, one, node).compute == (node == "a" ? Compute::f32 : Compute::f16));
  }
  const PrecisionPlan deny = plan_of(g, R"({"version": 1, "deny": {"add": ["Gelu"]}})");
  for (const std::string& node : gelu) CHECK(decision(g, deny, node).compute == Compute::f32);
}

TEST_CASE("rules: every selector, all keys must match, the last match wins") {
  SourceGraph g = text_graph(R"(
    input x
    param W 4 4
    param onnx_1 4 4
    param W3 4 4
    /encoder/layer.0/MatMul: a = MatMul(x, W)
    /encoder/layer.1/MatMul: b = MatMul(a, onnx_1)
    wt = Transpose(W3)
    /encoder/layer.11/MatMul: c = MatMul(b, wt)
    output c)");
  g.values[static_cast<size_t>(g.find("onnx_1"))].alias = "encoder.layer.1.weight";
  const auto low = [&](const std::string& rules) {
    const PrecisionPlan plan = plan_of(g, R"({"version": 1, "rules": [)" + rules + "]}");
    CHECK_FALSE(warned(plan, "matches no node"));
    std::string out;
    for (const char* node : {"/encoder/layer.0/MatMul", "/encoder/layer.1/MatMul", "/encoder/layer.11/MatMul"}) {
      out += decision(g, plan, node).compute == Compute::f32 ? '-' : 'L';
    }
    return out;
  };
  CHECK(low(R"({"op": "MatMul", "precision": "fp32"})") == "---");
  CHECK(low(R"({"op": "Mat*", "precision": "fp32"}, {"node": "*layer.1/*", "precision": "low"})") == "-L-");
  CHECK(low(R"({"node": "*layer.1/*", "precision": "low"}, {"op": "Mat*", "precision": "fp32"})") == "---");
  CHECK(low(R"({"scope": "/encoder/layer.1", "precision": "fp32"})") == "L-L");
  CHECK(low(R"({"scope": "encoder", "precision": "fp32"})") == "---");
  CHECK(low(R"({"tensor": "b", "precision": "fp32"})") == "L-L");
  CHECK(low(R"({"param": "encoder.layer.1.*", "precision": "fp32"})") == "L-L");
  // The rule reaches the product through the Transpose of W3.
  CHECK(low(R"({"param": "W3", "precision": "fp32"})") == "LL-");
  CHECK(low(R"({"op": "MatMul", "scope": "/encoder/layer.0", "precision": "fp32"})") == "-LL");
}

TEST_CASE("a rule that matches nothing is a warning, one that defies a constant too") {
  const SourceGraph g = text_graph(kMasked);
  const PrecisionPlan plan = plan_of(g, R"({"version": 1, "rules": [{"node": "nobody", "precision": "fp32"},
      {"op": "MatMul", "node": "p", "precision": "fp32"}, {"node": "bias", "precision": "low", "why": "I know"}]})");
  CHECK(warned(plan, "rule 1 of my.json matches no node"));
  CHECK(warned(plan, "rule 2 of my.json matches no node"));
  CHECK(warned(plan, "although constant 'lowest'"));
  CHECK(decision(g, plan, "bias").compute == Compute::f16);
  CHECK(decision(g, plan, "bias").pass == "rule");
  CHECK(decision(g, plan, "bias").rule == "rule 3 of my.json: I know");
}

TEST_CASE("a rule that asks 16 bits where there is no such arithmetic is refused with the nearest name") {
  const SourceGraph g = text_graph(R"(
    input x
    input d float64
    param W 4 4
    shape_of_x = Shape(x)
    wide = Exp(d)
    shape_or_x = Softmax(x)
    y = MatMul(shape_or_x, W)
    output y)");
  const auto refused = [&](const std::string& rule) {
    try {
      plan_of(g, R"({"version": 1, "rules": [)" + rule + "]}");
    } catch (const Error& e) {
      CHECK(e.exit() == Exit::usage);
      return std::string(e.id()) + ": " + e.fact() + " " + e.hint();
    }
    return std::string();
  };
  using Catch::Matchers::ContainsSubstring;
  CHECK_THAT(refused(R"({"node": "shape_of_x", "precision": "fp16"})"),
             ContainsSubstring("E_PLAN_NO_KERNEL") && ContainsSubstring("does not compute with floating numbers") &&
                 ContainsSubstring("did you mean 'shape_or_x'?"));
  CHECK_THAT(refused(R"({"op": "Exp", "precision": "bf16"})"), ContainsSubstring("computes in float64"));
  CHECK(refused(R"({"node": "shape_of_x", "precision": "fp32"})").empty());
  CHECK(refused(R"({"node": "*", "precision": "fp16"})").empty());
}

TEST_CASE("follow takes the widest input; fp16 and bf16 stand as written") {
  const SourceGraph g = text_graph(R"(
    input x
    param W 4 4
    a = MatMul(x, W)
    b = Softmax(a)
    c = Softmax(b)
    output c)");
  const PrecisionPlan plan = plan_of(g, R"({"version": 1, "rules": [{"node": "b", "precision": "follow"},
      {"node": "c", "precision": "bf16"}]})");
  CHECK(named_types(g, plan) == "a:fp16 b:fp16 c:bf16");
}

TEST_CASE("a rule takes part in painting as its node's class would") {
  const SourceGraph g = text_graph(R"(
    input x
    param W 4 4
    a = MatMul(x, W)
    b = Tanh(a)
    c = Softmax(b)
    d = Sigmoid(c)
    e = MatMul(d, W)
    output e)");
  CHECK(named_types(g, decide(g, preset("O1"), DType::f16)) == "a:fp16 b:fp32 c:fp32 d:fp32 e:fp16");
  CHECK(named_types(g, plan_of(g, R"({"version": 1, "rules": [{"op": "Softmax", "precision": "low"}]})")) ==
        "a:fp16 b:fp16 c:fp16 d:fp16 e:fp16");
  const SourceGraph h = text_graph(R"(
    input x
    param W 4 4
    a = MatMul(x, W)
    b = Tanh(a)
    c = MatMul(b, W)
    output c)");
  CHECK(named_types(h, plan_of(h, R"({"version": 1, "rules": [{"node": "a", "precision": "fp32"}]})")) ==
        "a:fp32 b:fp32 c:fp16");
  const std::string inputs = R"({"version": 1, "extends": "pytorch", "rules": [{"node": "a", "precision": "fp32"}]})";
  CHECK(named_types(h, plan_of(h, inputs)) == "a:fp32 b:fp32 c:fp16");
  const std::string other = R"({"version": 1, "extends": "pytorch", "rules": [{"node": "a", "precision": "bf16"}]})";
  CHECK(named_types(h, plan_of(h, other)) == "a:bf16 b:bf16 c:fp16");
}

TEST_CASE("a low rule on a table computed from positions lets its reader be low") {
  const SourceGraph g = text_graph(R"(
    input x
    input pos int64
    param W 4 4
    posf = Cast{to=1}(pos)
    cos = Cos(posf)
    rot = Mul(x, cos)
    s = MatMul(rot, W)
    output s)");
  CHECK(named_types(g, decide(g, preset("O1"), DType::f16)) == "posf:fp32 cos:fp32 rot:fp32 s:fp16");
  CHECK(named_types(g, plan_of(g, R"({"version": 1, "rules": [{"node": "cos", "precision": "low"}]})")) ==
        "posf:fp32 cos:fp16 rot:fp16 s:fp16");
}

TEST_CASE("a composite whose kind the list does not name falls apart") {
  const SourceGraph g = text_graph(R"(
    input x
    param W 4 4)" + kGelu + R"(
    out = MatMul(gelu, W)
    output out)");
  const PrecisionPlan plan = plan_of(
      g, R"({"version": 1, "extends": "none", "allow": ["MatMul"], "infer": ["Div", "Add", "Mul"], "deny": ["Erf"]})");
  CHECK(decision(g, plan, "e").compute == Compute::f32);
  CHECK(decision(g, plan, "v").cls == "infer");
  CHECK(decision(g, plan, "v").rule == "infer list of my.json");
}

TEST_CASE("a param rule reaches the tied copies of a weight") {
  SourceGraph g = text_graph(R"(
    input x
    param master 4 4
    param copy 4 4
    a = MatMul(x, copy)
    output a)");
  g.values[static_cast<size_t>(g.find("copy"))].tied_to = g.find("master");
  const PrecisionPlan plan = plan_of(g, R"({"version": 1, "rules": [{"param": "master", "precision": "fp32"}]})");
  CHECK(named_types(g, plan) == "a:fp32");
}
