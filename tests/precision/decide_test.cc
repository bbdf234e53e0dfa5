// Decisions of the precision plan: presets O0 to O3 and the PyTorch preset, masks and constants that 16 bits cannot
// represent, integers, shapes and positions, unlisted operators.
#include "precision/decide.h"

#include <catch2/catch_all.hpp>

#include "text_graph.h"

using namespace amp;
using namespace amp::test;
using Catch::Matchers::ContainsSubstring;

namespace {

// The attention half of a post-norm transformer layer as PyTorch exports it; the mask has -FLT_MAX.
const char* const kAttention = R"(
    input x
    input mask int64
    param Wq 4 4
    param Wv 4 4
    param b 4
    param gamma 4
    const scale = 8.0
    const one = 1.0
    const lowest = -3.4028235e38
    maskf = Cast{to=1}(mask)
    inverse = Sub(one, maskf)
    bias = Mul(inverse, lowest)
    wide = Unsqueeze(bias)
    q = MatMul(x, Wq)
    qb = Add(q, b)
    qt = Transpose(qb)
    scores = MatMul(qb, qt)
    scaled = Div(scores, scale)
    masked = Add(scaled, wide)
    p = Softmax{axis=-1}(masked)
    v = MatMul(x, Wv)
    o = MatMul(p, v)
    res = Add(o, x)
    y = LayerNormalization{axis=-1}(res, gamma, b)
    output y)";

}  // namespace

TEST_CASE("O1 on attention: matrix products low, mask, softmax and norm fp32") {
  const SourceGraph g = text_graph(kAttention);
  const PrecisionPlan plan = decide(g, preset("O1"), DType::f16);
  CHECK(named_types(g, plan) ==
        "maskf:fp32 inverse:fp32 bias:fp32 wide:fp32 q:fp16 qb:fp16 qt:fp16 scores:fp16 scaled:fp32 masked:fp32 p:fp32 "
        "v:fp16 o:fp16 res:fp32 y:fp32");
  CHECK(decision(g, plan, "qb").pass == "paint: between allow nodes");
  CHECK(decision(g, plan, "q").rule == "allow list of O1");
  CHECK(decision(g, plan, "p").cls == "deny");
  CHECK(decision(g, plan, "maskf").pass == "no-weights");
  CHECK(decision(g, plan, "bias").pass == "safety");
  CHECK_THAT(decision(g, plan, "bias").rule, ContainsSubstring("'lowest' holds -3.4"));
  CHECK(decision(g, plan, "res").pass == "paint: not between allow nodes");
  CHECK(plan.any_low());
  CHECK(plan.any_f16());
  CHECK(plan.warnings.empty());
}

TEST_CASE("the mask stays fp32 in every preset that has low nodes, bf16 too") {
  const SourceGraph g = text_graph(kAttention);
  const std::string name = GENERATE("O1", "O2", "O3", "pytorch", "tensorflow", "paddle", "apex");
  const DType low = GENERATE(DType::f16, DType::bf16);
  INFO(name);
  const PrecisionPlan plan = decide(g, preset(name), low);
  for (const char* node : {"bias", "wide", "masked", "p"}) {
    INFO(node);
    CHECK(decision(g, plan, node).compute == Compute::f32);
  }
  CHECK(decision(g, plan, "scores").compute == compute_of(low));
}

TEST_CASE("O0 is all fp32, and a rule on it makes one node low") {
  const SourceGraph g = text_graph(kAttention);
  CHECK_FALSE(decide(g, preset("O0"), DType::f16).any_low());
  const PrecisionPlan plan =
      plan_of(g, R"({"version": 1, "extends": "O0", "rules": [{"node": "scores", "precision": "low"}]})");
  for (size_t i = 0; i < g.nodes.size(); ++i) {
    INFO(g.nodes[i].name);
    CHECK((plan.nodes[i].compute == Compute::f16) == (g.nodes[i].name == "scores"));
  }
}

TEST_CASE("O2 is low but for norms, O3 but for the mask") {
  const SourceGraph g = text_graph(kAttention);
  CHECK(decision(g, decide(g, preset("O2"), DType::f16), "y").compute == Compute::f32);
  CHECK(decision(g, decide(g, preset("O2"), DType::f16), "y").cls == "deny");
  CHECK(decision(g, decide(g, preset("O3"), DType::f16), "y").compute == Compute::f16);
  CHECK(decision(g, decide(g, preset("O2"), DType::f16), "res").compute == Compute::f16);
  CHECK(decision(g, decide(g, preset("O1"), DType::f16), "y").compute == Compute::f32);
}

TEST_CASE("low = fp32 gives a plan without low nodes") {
  const SourceGraph g = text_graph(kAttention);
  CHECK_FALSE(decide(g, preset("O3"), DType::f32).any_low());
}

TEST_CASE("PyTorch semantics: the widest input decides what no list names") {
  const SourceGraph g = text_graph(R"(
    input x
    param W 4 4
    param b 4
    param table 4 4
    const two = 2.0
    const vec 4 = 1
    l = MatMul(x, W)
    lin = Add(l, b)
    r = Relu(lin)
    t = Mul(r, two)
    e = Exp(t)
    mix = Add(e, t)
    same = Add(t, r)
    wide = Add(t, table)
    wider = Add(t, vec)
    cat = Concat{axis=0}(same, mix)
    bn = BatchNormalization(same, b, b, b, b)
    emb = Neg(table)
    output cat)");
  CHECK(named_types(g, decide(g, preset("pytorch"), DType::f16)) ==
        "l:fp16 lin:fp16 r:fp16 t:fp16 e:fp32 mix:fp32 same:fp16 wide:fp32 wider:fp32 cat:fp32 bn:fp16 emb:fp32");
}

TEST_CASE("constants that 16 bits lose: epsilons are kept fp32 in fp16, fine in bf16") {
  const SourceGraph g = text_graph(R"(
    input x
    param W 4 4
    const eps = 1e-9
    const ok = 0.001
    a = MatMul(x, W)
    b = Add(a, eps)
    c = MatMul(b, W)
    d = Add(c, ok)
    e = MatMul(d, W)
    output e)");
  CHECK(named_types(g, decide(g, preset("O1"), DType::f16)) == "a:fp16 b:fp32 c:fp16 d:fp16 e:fp16");
  CHECK(named_types(g, decide(g, preset("O1"), DType::bf16)) == "a:bf16 b:bf16 c:bf16 d:bf16 e:bf16");
}

TEST_CASE("weights beyond fp16 are reported and kept fp32; bounds of Clip are harmless") {
  const SourceGraph g = text_graph(R"(
    input x
    param W 2 2 = 1 70000 1 1
    param V 2 2
    const hi = 3.4028235e38
    const lo = 0.0
    a = MatMul(x, V)
    b = Clip(a, lo, hi)
    c = MatMul(b, V)
    d = MatMul(c, W)
    output d)");
  const PrecisionPlan plan = decide(g, preset("O1"), DType::f16);
  CHECK(named_types(g, plan) == "a:fp16 b:fp16 c:fp16 d:fp32");
  CHECK(warned(plan, "weight 'W' holds 70000"));
  CHECK(named_types(g, decide(g, preset("O1"), DType::bf16)) == "a:bf16 b:bf16 c:bf16 d:bf16");
}

TEST_CASE("the integers of a quantizer are not computed with in 16 bits") {
  const SourceGraph g = text_graph(R"(
    input x
    param W 4 4
    const s = 0.25
    const low = -8.0
    const high = 7.0
    q1 = Div{quantiser_data=0}(W, s)
    q2 = Round{quantiser_data=0,straight_through=1}(q1)
    q3 = Clip{quantiser_data=0}(q2, low, high)
    t = Transpose(q3)
    product = MatMul(x, t)
    y = Mul(product, s)
    other = MatMul(y, W)
    output other)");
  for (const DType low : {DType::f16, DType::bf16}) {
    const PrecisionPlan plan = plan_of(g, R"({"version": 1, "extends": "O1"})", low);
    for (const char* node : {"q1", "q2", "q3", "t", "product", "y"}) {
      INFO(node);
      CHECK(decision(g, plan, node).compute == Compute::f32);
      CHECK(decision(g, plan, node).rule == "it computes with the integers of a quantizer");
    }
    CHECK(decision(g, plan, "other").compute == compute_of(low));
  }
}

TEST_CASE("what is not floating arithmetic has no compute type") {
  const SourceGraph g = text_graph(R"(
    input x
    input ids int64
    input wide float64
    param E 9 4
    const zero int64 = 0
    emb = Gather(E, ids)
    shape = Shape(x)
    next = Add(ids, zero)
    cond = Equal(ids, zero)
    toint = Cast{to=7}(x)
    d = Neg(wide)
    sel = Where(cond, emb, x)
    output sel)");
  const PrecisionPlan plan = decide(g, preset("O1"), DType::f16);
  CHECK(named_types(g, plan) == "emb:fp32 sel:fp32");
  CHECK(decision(g, plan, "d").rule == "float64");
}

TEST_CASE("positions are not rounded: nodes that depend on no weight and no floating input stay fp32") {
  const SourceGraph g = text_graph(R"(
    input x
    input pos int64
    const freq 1 4
    param W 4 4
    posf = Cast{to=1}(pos)
    angle = MatMul(posf, freq)
    cos = Cos(angle)
    q = MatMul(x, W)
    rot = Mul(q, cos)
    s = MatMul(rot, W)
    output s)");
  CHECK(named_types(g, decide(g, preset("O1"), DType::f16)) == "posf:fp32 angle:fp32 cos:fp32 q:fp16 rot:fp16 s:fp16");
}

TEST_CASE("Resize goes by its mode") {
  const SourceGraph g = text_graph(R"(
    input x
    param W 4 4
    const sizes 4 = 2
    a = MatMul(x, W)
    n = Resize{mode=nearest}(a, , sizes)
    b = MatMul(n, W)
    l = Resize{mode=linear}(b, , sizes)
    c = MatMul(l, W)
    output c)");
  CHECK(named_types(g, decide(g, preset("O1"), DType::f16)) == "a:fp16 n:fp16 b:fp16 l:fp32 c:fp16");
}

TEST_CASE("an unlisted operator is infer, said once") {
  const SourceGraph g = text_graph(R"(
    input x
    param W 4 4
    a = MatMul(x, W)
    b = com.acme::Foo(a)
    b2 = com.acme::Foo(b)
    c = MatMul(b2, W)
    output c)");
  const PrecisionPlan plan = decide(g, preset("O1"), DType::f16);
  CHECK(named_types(g, plan) == "a:fp16 b:fp16 b2:fp16 c:fp16");
  CHECK(decision(g, plan, "b").cls == "unlisted");
  CHECK(plan.warnings == std::vector<std::string>{"operator 'Foo' is unlisted in O1: treated as infer"});
}

TEST_CASE("the same graph and list give the same plan; the order of independent nodes does not matter") {
  const SourceGraph g = text_graph(kAttention);
  std::string moved = kAttention;
  const std::string line = "    v = MatMul(x, Wv)\n";
  moved.erase(moved.find(line), line.size());
  moved.insert(moved.find("    maskf"), line);
  const SourceGraph h = text_graph(moved);
  const PrecisionPlan a = decide(g, preset("O1"), DType::f16), b = decide(h, preset("O1"), DType::f16);
  for (const SourceNode& n : g.nodes) {
    INFO(n.name);
    CHECK(decision(g, a, n.name).compute == decision(h, b, n.name).compute);
    CHECK(decision(g, a, n.name).pass == decision(h, b, n.name).pass);
  }
  CHECK(graph_fingerprint(g) == graph_fingerprint(text_graph(kAttention)));
  CHECK(graph_fingerprint(g) != graph_fingerprint(h));
}

TEST_CASE("bounds are no data: a deny node that only limits a Clip does not colour it") {
  const SourceGraph g = text_graph(R"(
    input x
    param W 4 4
    hi = Exp(x)
    a = MatMul(x, W)
    b = Clip(a, , hi)
    c = Tanh(b)
    d = MatMul(c, W)
    output d)");
  CHECK(named_types(g, decide(g, preset("O1"), DType::f16)) == "hi:fp32 a:fp16 b:fp16 c:fp16 d:fp16");
}

TEST_CASE("what is computed from a shape is no data") {
  const SourceGraph g = text_graph(R"(
    input x
    const freq 1 4
    shape = Shape(x)
    lengths = Cast{to=1}(shape)
    angle = MatMul(lengths, freq)
    output angle)");
  CHECK(named_types(g, decide(g, preset("O1"), DType::f16)) == "lengths:fp32 angle:fp32");
  CHECK(decision(g, decide(g, preset("O1"), DType::f16), "angle").pass == "no-weights");
}
