// The passes prune and absorb_casts on small graphs in text form: which nodes and casts are removed, and that numbers
// do not change.
#include "graph/passes.h"

#include <catch2/catch_all.hpp>

#include "tests/graph/core_text.h"

using namespace amp;
using namespace amp::test;

namespace {
const std::string to16 = cat("{to=", static_cast<int>(DType::f16), "}"),
                  to32 = cat("{to=", static_cast<int>(DType::f32), "}");
}  // namespace

TEST_CASE("prune keeps what outputs and gradients need") {
  CoreText t(R"(
    input x 3
    input unread 4
    param w 3
    param unused 5
    a = Mul(x, w)
    dead = Exp(a)
    g = Neg(a)
    p, q = Split(a) {axis=0; sizes=[1 2]}
    output q)");
  t.graph.param_grads.push_back({0, t["g"]});
  const Graph g = prune(t.graph);
  CHECK(text_of(g) ==
        "t0 float32[3] = Mul(x, w)\n"
        "t1 float32[3] = Neg(t0)\n"
        "t2 float32[1], t3 float32[2] = Split(t0)\n"
        "output q = t3\n"
        "grad 0 = t1\n");
  CHECK_FALSE(g.input("unread"));
  CHECK(text_of(prune(g)) == text_of(g));
}

TEST_CASE("a cast of what is computed for it alone goes into the producer") {
  CHECK(text_of(absorb_casts(
            CoreText("input x 2 2\nparam w 2 2\na = MatMul(x, w)\nb = Cast(a) " + to16 + "\noutput b").graph)) ==
        "t0 float16[2,2] = MatMul(x, w)\noutput b = t0\n");
  // A cast that has other readers, or is an output, remains.
  CHECK(ops_of(absorb_casts(
            CoreText("input x 2\na = Exp(x)\nb = Cast(a) " + to16 + "\nc = Neg(a)\noutput b\noutput c").graph)) ==
        "Exp Cast Neg");
  CHECK(ops_of(absorb_casts(CoreText("input x 2\na = Exp(x)\nb = Cast(a) " + to16 + "\noutput a\noutput b").graph)) ==
        "Exp Cast");
  // A cast of an input, a parameter, a view, a moved value or an integer remains.
  CHECK(ops_of(absorb_casts(CoreText("input x 2\nb = Cast(x) " + to16 + "\noutput b").graph)) == "Cast");
  CHECK(ops_of(absorb_casts(CoreText("param w 2\nb = Cast(w) " + to16 + "\noutput b").graph)) == "Cast");
  CHECK(ops_of(absorb_casts(
            CoreText("input x 4 2\na = Transpose(x) {perm=[1 0]}\nb = Cast(a) " + to16 + "\noutput b").graph)) ==
        "Transpose Cast");
  CHECK(ops_of(absorb_casts(CoreText("input x i64 4\na = Neg(x)\nb = Cast(a) " + to32 + "\noutput b").graph)) ==
        "Neg Cast");
}

TEST_CASE("up-casts go into what accumulates in fp32, or was planned so") {
  // The product dW of 16-bit operands is planned in 16 bits. Its sum is computed in fp32 in any case, so the product
  // absorbs the cast.
  CoreText product("input x fp16 2 2\ninput y fp16 2 2\na = MatMul(x, y)\nb = Cast(a) " + to32 + "\noutput b");
  CHECK(text_of(absorb_casts(product.graph)) == "t0 float32[2,2] = MatMul(x, y)\noutput b = t0\n");
  // An elementwise node over 16-bit operands absorbs the cast if it is planned in fp32 ...
  CoreText fp32("input x fp16 2\na = Exp(x)\nb = Cast(a) " + to32 + "\noutput b");
  CHECK(ops_of(absorb_casts(fp32.graph)) == "Exp");
  // ... but not if it is planned in 16 bits, because then the rounding is part of the plan.
  CoreText fp16("input x fp16 2");
  fp16.builder.origin.compute = DType::f16;
  const ValueId a = fp16.builder.op("Exp", {fp16["x"]}), b = fp16.builder.cast(a, DType::f32);
  fp16.graph.outputs.push_back({"b", b});
  CHECK(ops_of(absorb_casts(fp16.graph)) == "Exp Cast");
}

TEST_CASE("a value that is rounded to 16 bits for two readers stays rounded for both") {
  // First, the only reader is the gradient of a weight's cast, and the rounding is removed. Then an output is a second
  // reader.
  const std::string alone = "input x 2\na = Exp(x)\nb = Cast(a) " + to16 + "\nc = Cast(b) " + to32 + "\nd = Neg(c)\n";
  CHECK(text_of(absorb_casts(CoreText(alone + "output d").graph)) ==
        "t0 float32[2] = Exp(x)\nt1 float32[2] = Neg(t0)\noutput d = t1\n");
  CHECK(text_of(absorb_casts(CoreText(alone + "output d\noutput b").graph)) ==
        "t0 float16[2] = Exp(x)\nt1 float32[2] = Neg(t0)\noutput d = t1\noutput b = t0\n");
}

TEST_CASE("absorbing keeps numbers") {
  CoreText t("input x 8 8\nparam w 8 8\na = MatMul(x, w)\nb = Cast(a) " + to16 + "\nc = Exp(b)\nd = Cast(c) " + to32 +
             "\noutput d");
  std::vector<float> v(64);
  for (size_t i = 0; i < v.size(); ++i) v[i] = 0.037f * static_cast<float>(i % 13) - 0.2f;
  const HostTensor m = HostTensor::of<float>({8, 8}, v);
  const Graph g = absorb_casts(t.graph);
  CHECK(ops_of(g) == "MatMul Exp");
  const std::vector<double> before = interpret(t.graph, {{"x", m}}, {m}).outputs.at("d").to_doubles(),
                            after = interpret(g, {{"x", m}}, {m}).outputs.at("d").to_doubles();
  for (size_t i = 0; i < before.size(); ++i)
    CHECK(std::abs(before[i] - after[i]) <= 1e-3 * before[i]);  // the result of Exp is no longer rounded to 16 bits
}
