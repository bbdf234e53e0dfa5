// An epsilon below fp16's range keeps the nodes between it and the division, root or logarithm in fp32. bf16 can
// represent it.
#include <catch2/catch_all.hpp>

#include "text_graph.h"

using namespace amp;
using namespace amp::test;
using Catch::Matchers::ContainsSubstring;

namespace {

struct Form {
  std::string name, text;              // statements that compute z from h
  std::vector<std::string> wide, low;  // names of nodes in fp32 and in 16 bits
};

const std::vector<Form>& forms() {
  static const std::vector<Form> all = {
      {"Clip, Div", "n = ReduceL2(h)\nm = Clip(n, e12)\nz = Div(h, m)\n", {"m", "z"}, {}},
      {"Clip, Expand, Div",
       "n = ReduceL2(h)\nm = Clip(n, e12)\nw = Expand(m, shape)\nz = Div(h, w)\n",
       {"m", "w", "z"},
       {}},
      {"Max, Unsqueeze, Div",
       "n = ReduceL2(h)\nm = Max(n, e12)\nw = Unsqueeze(m, last)\nz = Div(h, w)\n",
       {"m", "w", "z"},
       {}},
      {"Add, Tile, Concat, Div",
       "n = ReduceSum(h)\nm = Add(e9, n)\nw = Tile(m, last)\nv = Concat{axis=1}(w, w)\nz = Div(h, v)\n",
       {"m", "w", "v", "z"},
       {}},
      {"epsilon expanded", "c = Expand(e12, shape)\nn = Abs(h)\nm = Max(n, c)\nz = Div(h, m)\n", {"m", "z"}, {}},
      {"Where, Div", "n = ReduceL2(h)\nq = Equal(n, zero)\nm = Where(q, e9, n)\nz = Div(h, m)\n", {"m", "z"}, {}},
      {"Add, Sqrt, Div", "q = Abs(h)\nn = Add(q, e12)\nm = Sqrt(n)\nz = Div(h, m)\n", {"n", "m", "z"}, {}},
      {"Add, Log", "q = Abs(h)\nn = Add(q, e9)\nz = Log(n)\n", {"n", "z"}, {}},
      {"Add, Pow", "q = Abs(h)\nn = Add(q, e12)\nm = Pow(n, minus)\nz = Mul(h, m)\n", {"n", "m", "z"}, {}},
      {"Clip, Reciprocal, Mul",
       "n = ReduceL2(h)\nm = Clip(n, e9)\nr = Reciprocal(m)\nw = Unsqueeze(r, last)\nz = Mul(h, w)\n",
       {"m", "r", "w", "z"},
       {}},
      {"1 / x", "n = ReduceL2(h)\nm = Max(n, e9)\nr = Div(one, m)\nz = Mul(h, r)\n", {"m", "r", "z"}, {}},
      {"the floor of a product", "q = Abs(h)\na = Add(q, e4)\nb = Mul(a, a)\nz = Div(h, b)\n", {"b", "z"}, {}},
      // Forms in which z can be computed in 16 bits: the floor is 1, or no operator needs the epsilon, or the type can
      // represent it.
      {"two constants", "q = Abs(h)\na = Add(q, e12)\nb = Add(a, one)\nz = Div(h, b)\n", {"a"}, {"z"}},
      {"held", "q = Abs(h)\na = Add(q, e4)\nz = Div(h, a)\n", {}, {"a", "z"}},
      {"no division", "a = Relu(h)\nz = Mul(a, h)\n", {}, {"a", "z"}},
  };
  return all;
}

SourceGraph graph_of(const Form& f) {
  return text_graph(R"(
    input x
    param W 4 4
    param F 4 4
    const e12 = 1e-12
    const e9 = 1e-9
    const e4 = 1e-4
    const zero = 0.0
    const one = 1.0
    const minus = -0.5
    const shape int64 2 = 2 4
    const last int64 1 = 1
    h = MatMul(x, W)
)" + f.text + "y = MatMul(z, F)\noutput y\n");
}

}  // namespace

TEST_CASE("an epsilon that fp16 loses stays fp32 as far as it is needed", "[epsilon]") {
  for (const Form& f : forms()) {
    INFO(f.name);
    const SourceGraph g = graph_of(f);
    const PrecisionPlan half = decide(g, preset("O3"), DType::f16), brain = decide(g, preset("O3"), DType::bf16);
    for (const std::string& n : f.wide) {
      INFO(n);
      CHECK(decision(g, half, n).compute == Compute::f32);
      CHECK(decision(g, half, n).pass == "safety");
      CHECK_THAT(decision(g, half, n).rule, ContainsSubstring("'e"));
      CHECK(decision(g, brain, n).pass != "safety");
    }
    for (const std::string& n : f.low) {
      INFO(n);
      CHECK(decision(g, half, n).pass != "safety");
    }
    CHECK(decision(g, half, "h").compute == Compute::f16);
    CHECK(decision(g, half, "y").compute == Compute::f16);
  }
}

TEST_CASE("a weight that fp16 loses keeps its readers fp32", "[epsilon]") {
  const SourceGraph g = text_graph(
      "input x\nparam W 4 4 = 0.5\nparam tiny 4 = 1e-8\nh = MatMul(x, W)\nz = Mul(h, tiny)\ny = MatMul(z, W)\noutput "
      "y\n");
  CHECK(decision(g, decide(g, preset("O3"), DType::f16), "z").pass == "safety");
  CHECK(decision(g, decide(g, preset("O3"), DType::bf16), "z").pass != "safety");
}
