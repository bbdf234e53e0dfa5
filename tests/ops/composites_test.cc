// Fused operators: an unfused subgraph and the operator that replaces it give the same outputs and gradients. Subgraphs
// that only resemble one are kept.
#include <catch2/catch_all.hpp>

#include "graph/passes.h"
#include "ops/passes/fused_operators.h"
#include "tests/graph/core_text.h"
#include "tests/ops/composite_check.h"

using namespace amp;
using namespace amp::test;

namespace {

const std::string kNorm = R"(
    param x 3 5 8
    param W 8
    param b 8
    const rate = 0.125
    const eps = 1e-5
    const one = 1
    s = ReduceSum(x) {axes=[2]; keepdims=1}
    mean = Mul(s, rate)
    d = Sub(x, mean)
    q = Mul(d, d)
    v = ReduceSum(q) {axes=[2]; keepdims=1}
    v = Mul(v, rate)
    v = Add(v, eps)
    sd = Sqrt(v)
)";
const std::string kRms = R"(
    param x 3 5 8
    param W 8
    const rate = 0.125
    const eps = 1e-5
    const one = 1
    q = Mul(x, x)
    v = ReduceSum(q) {axes=[2]; keepdims=1}
    v = Mul(v, rate)
    v = Add(v, eps)
    sd = Sqrt(v)
)";

}  // namespace

TEST_CASE("spellings of LayerNorm and RMSNorm") {
  for (const auto& [name, text] : std::map<std::string, std::string>{
           {"divided", kNorm + "y = Div(d, sd)\ny = Mul(y, W)\ny = Add(y, b)\noutput y"},
           {"operands swapped", kNorm + "y = Div(d, sd)\ny = Mul(W, y)\ny = Add(b, y)\noutput y"},
           {"reciprocal", kNorm + "r = Reciprocal(sd)\ny = Mul(d, r)\ny = Mul(y, W)\ny = Add(y, b)\noutput y"},
           {"one over", kNorm + "r = Div(one, sd)\ny = Mul(r, d)\ny = Mul(y, W)\ny = Add(y, b)\noutput y"},
           {"TensorFlow", kNorm + "r = Reciprocal(sd)\nr = Mul(r, W)\nm = Mul(mean, r)\nh = Sub(b, m)\ny = Mul(x, "
                                  "r)\ny = Add(y, h)\noutput y"},
           {"rms", kRms + "y = Div(x, sd)\ny = Mul(W, y)\noutput y"},
           {"rms reciprocal", kRms + "r = Reciprocal(sd)\ny = Mul(x, r)\ny = Mul(y, W)\noutput y"}}) {
    DYNAMIC_SECTION(name) {
      CHECK(formed(text) == "LayerNorm");
      same_numbers(text, 1e-12);
    }
  }
}

TEST_CASE("spellings of GELU") {
  const std::string head =
      "param x 3 8\nconst half = 0.5\nconst one = 1\nconst root = 1.4142135\nconst inverse = 0.70710677\nconst c = "
      "0.044715\nconst k = 0.7978846\n";
  const std::string gate = "e = Erf(t)\ng = Add(e, one)\n", tanh = "s = Mul(k, i)\ne = Tanh(s)\ng = Add(one, e)\n";
  for (const auto& [name, text] : std::map<std::string, std::string>{
           {"PyTorch", "t = Div(x, root)\n" + gate + "y = Mul(x, g)\ny = Mul(y, half)"},
           {"half first", "t = Mul(x, inverse)\n" + gate + "h = Mul(half, x)\ny = Mul(h, g)"},
           {"half on the gate", "t = Mul(x, inverse)\n" + gate + "h = Mul(half, g)\ny = Mul(x, h)"},
           {"tanh", "x2 = Mul(x, x)\nx3 = Mul(x2, x)\ni = Mul(x3, c)\ni = Add(x, i)\n" + tanh +
                        "h = Mul(x, half)\ny = Mul(h, g)"}}) {
    DYNAMIC_SECTION(name) {
      CHECK(formed(head + text + "\noutput y") == (name == "tanh" ? "GeluTanh" : "Gelu"));
      same_numbers(head + text + "\noutput y", 1e-6);  // tolerance: constants are rounded to fp32
    }
  }
}

TEST_CASE("products take a bias and a factor") {
  for (const char* text :
       {"param x 6 4\nparam W 4 5\nparam b 5\ny = MatMul(x, W)\ny = Add(y, b)\noutput y",
        "param x 2 3 4\nparam W 5 4\nparam b 1 5\ny = MatMul(x, W) {transB=1}\ny = Add(b, y)\noutput y",
        "param x 2 3 4\nparam z 2 4 5\nconst c = 0.25\ny = MatMul(x, z)\ny = Mul(y, c)\noutput y",
        "param x 3 4\nparam z 4 5\nconst c = 8\ny = MatMul(x, z) {alpha=0.5}\ny = Div(y, c)\noutput y"}) {
    INFO(text);
    CHECK(formed(text) ==
          (std::string(text).find(" b ") == std::string::npos || std::string(text).find("1 5") == std::string::npos
               ? "MatMul"
               : "Reshape MatMul"));
    same_numbers(text, 1e-12);
  }
}

TEST_CASE("what only looks like a composite is left alone") {
  const auto unchanged = [](const std::string& text) {
    INFO(text);
    CHECK(formed(text) == ops_of(prune(CoreText(text).graph)));
    same_numbers(text, 1e-12);
  };
  // Kept: a batch of products, or a transposed batch, for which the kernel has no bias.
  unchanged("param x 2 3 4\nparam z 2 4 5\nparam b 5\ny = MatMul(x, z)\ny = Add(y, b)\noutput y");
  unchanged("param x 2 4 3\nparam z 4 5\nparam b 5\ny = MatMul(x, z) {transA=1}\ny = Add(y, b)\noutput y");
  // Kept: a bias along another axis, or one that makes the result larger.
  unchanged("param x 3 4\nparam W 4 5\nparam b 3 1\ny = MatMul(x, W)\ny = Add(y, b)\noutput y");
  unchanged("param x 3 4\nparam W 4 5\nparam b 2 1 5\ny = MatMul(x, W)\ny = Add(y, b)\noutput y");
  // Kept: intermediate results with other readers.
  unchanged("param x 3 4\nparam W 4 5\nparam b 5\nm = MatMul(x, W)\ny = Add(m, b)\nz = Mul(y, m)\noutput z");
  // Kept: a constant other than GELU's, a constant other than 1/n, another x.
  unchanged(
      "param x 3 8\nconst half = 0.5\nconst one = 1\nconst root = 1.5\nt = Div(x, root)\ne = Erf(t)\ng = Add(e, "
      "one)\ny = Mul(x, g)\ny = Mul(y, half)\noutput y");
  std::string wrong = kNorm + "y = Div(d, sd)\ny = Mul(y, W)\ny = Add(y, b)\noutput y";
  wrong.replace(wrong.find("rate = 0.125"), 12, "rate = 0.126");
  unchanged(wrong);
  unchanged(kRms + "p = Exp(x)\ny = Div(p, sd)\ny = Mul(W, y)\noutput y");
}

TEST_CASE("constants of higher rank keep the result's shape") {
  const std::string text =
      "param x 3 8\nconst half 1 1 1 = 0.5\nconst one = 1\nconst root = 1.4142135\nt = Div(x, root)\ne = Erf(t)\ng = "
      "Add(e, one)\ny = Mul(x, g)\ny = Mul(y, half)\noutput y";
  const Graph g = fuse_operators(prune(CoreText(text).graph), {}, cpu_evaluator());
  CHECK(g.value(g.outputs[0].value).dims == Dims{1, 3, 8});
  same_numbers(text, 1e-6);
}

TEST_CASE("composites are formed within one compute type") {
  const std::string text = "param x 6 4\nparam W 4 5\nparam b 5\ny = MatMul(x, W) @0\ny = Add(y, b) @1\noutput y";
  CHECK(formed(text, {DType::f16, DType::f16}) == "MatMul");
  CHECK(formed(text, {DType::f16, DType::f32}) == "MatMul Add");
  CHECK(formed(text, {DType::f32, DType::f32}) == "MatMul");
}
