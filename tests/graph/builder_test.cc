// The Builder's rules: constant folding, common subexpressions, and every operator's simplification.
#include "graph/builder.h"

#include <catch2/catch_all.hpp>

#include "graph/passes.h"
#include "tests/graph/core_text.h"
#include "tests/graph/source_net.h"

using namespace amp;
using namespace amp::test;

namespace {
std::string ops_after(const std::string& text) { return ops_of(CoreText(text).graph); }
}  // namespace

TEST_CASE("what is constant is evaluated") {
  CoreText t(R"(
    const a 2 = 1 2
    const b 2 = 10 20
    s = Add(a, b)
    r = Reshape(s) {dims=[2 1]})");
  CHECK(t.graph.n_nodes() == 0);
  CHECK(t.builder.constant_of(t["s"])->to_doubles() == std::vector<double>{11, 22});
  CHECK(t.builder.constant_of(t["r"])->dims() == Dims{2, 1});
  CHECK(t.builder.is_constant(t["a"], 1) == false);
  CHECK(t.builder.is_constant(t.builder.scalar(3, DType::i64), 3));
}

// Code such as b.expand(b.scalar(0, x.dtype), x.dims), with x a reference to a Value, depends on it.
TEST_CASE("references to values and nodes stay valid while others are added") {
  CoreText t("input x 2 3\ny = Neg(x)");
  const Value* const value = &t.graph.value(t["y"]);
  const Node* const node = &t.graph.node(value->producer);
  for (int i = 0; i < 1000; ++i) t.builder.op("Add", {t["y"], t.builder.scalar(i, DType::f32)});
  CHECK(value == &t.graph.value(t["y"]));
  CHECK(node == &t.graph.node(value->producer));
  CHECK(value->dims == Dims{2, 3});
}

TEST_CASE("small constants are shared, without an evaluator nothing is folded") {
  CoreText t("const a = 2\nconst b = 2\nconst c fp64 = 2\nconst d 1 = 2");
  CHECK(t["a"] == t["b"]);
  CHECK(t["a"] != t["c"]);
  CHECK(t["a"] != t["d"]);
  CoreText plain("const a = 2\nb = Neg(a)", {});
  CHECK(ops_of(plain.graph) == "Neg");
}

TEST_CASE("random operators are neither folded nor merged") {
  CHECK(ops_after("const a 4 = 1 1 1 1\nb = Dropout(a) {ratio=0.5; site=1}\nc = Dropout(a) {ratio=0.5; site=1}") ==
        "Dropout Dropout");
}

TEST_CASE("large expansions of constants stay nodes, folding has a budget") {
  CHECK(ops_after("const a = 2\nb = Expand(a) {dims=[1000]}") == "");
  CHECK(ops_after("const a = 2\nb = Expand(a) {dims=[1000 1000]}") == "Expand");
  CoreText t("const a = 2\nconst b 5000 1 = 3\nconst c 1 5000 = 3");
  try {
    t.add("d = Mul(b, c)");
    FAIL("100 MB were folded");
  } catch (const Error& e) {
    CHECK(e.exit() == Exit::unsupported);
    CHECK(e.id() == "E_FOLD_BUDGET");
  }
}

TEST_CASE("equal pure nodes are one node") {
  CHECK(ops_after("input x 3\na = Exp(x)\nb = Exp(x)\nc = Add(a, b)\nd = Add(b, a)") == "Exp Add");
  CHECK(ops_after(
            "input x 3\na = LeakyRelu(x) {alpha=0.1}\nb = LeakyRelu(x) {alpha=0.2}\nc = LeakyRelu(x) {alpha=0.1}") ==
        "LeakyRelu LeakyRelu");
  CHECK(ops_after("input x 2 3\ninput y 2 3\na = Sub(x, y)\nb = Sub(y, x)") == "Sub Sub");
  CoreText t("input x 4\na, b = Split(x) {axis=0; sizes=[1 3]}\nc, d = Split(x) {axis=0; sizes=[1 3]}");
  CHECK((t["a"] == t["c"] && t["b"] == t["d"]));
}

TEST_CASE("views collapse") {
  CoreText t("input x 2 3 4\na = Reshape(x) {dims=[6 4]}\nb = Reshape(a) {dims=[24]}\nc = Reshape(b) {dims=[2 3 4]}");
  CHECK(t.producer("b").in[0] == t["x"]);  // a chain of views reads the source of the first one
  CHECK(t["c"] == t["x"]);
  CHECK(ops_after("input x 2 3\na = Reshape(x) {dims=[2 3]}") == "");
}

TEST_CASE("transposes collapse") {
  CoreText t(R"(
    input x 2 3 4
    a = Transpose(x) {perm=[1 2 0]}
    back = Transpose(a) {perm=[2 0 1]}
    twice = Transpose(a) {perm=[1 2 0]})");
  CHECK(t["back"] == t["x"]);
  CHECK(t.producer("twice").in[0] == t["x"]);
  CHECK(t.producer("twice").attrs.ints("perm") == std::vector<int64_t>{2, 0, 1});
  CHECK(t.builder.dims(t["twice"]) == Dims{4, 2, 3});
  // Only axes of extent 1 move, so the order of the bytes does not change.
  CHECK(ops_after("input x 1 5 1 3\na = Transpose(x) {perm=[1 0 3 2]}") == "Reshape");
  CHECK(ops_after("input x 2 5\na = Transpose(x) {perm=[1 0]}") == "Transpose");
  CHECK(ops_after("input x 2 5\na = Transpose(x) {perm=[0 1]}") == "");
}

TEST_CASE("casts disappear or move in front of views") {
  CHECK(ops_after(cat("input x 3\na = Cast(x) {to=", static_cast<int>(DType::f32), "}")) == "");
  CoreText t(cat("input x 2 3\nparam W 6\nm = Mul(x, x)\nr = Reshape(m) {dims=[6]}\nc = Cast(r) {to=",
                 static_cast<int>(DType::f16), "}"));
  CHECK(t.producer("c").op->name == "Reshape");
  CHECK(t.graph.node(t.graph.value(t.producer("c").in[0]).producer).in[0] == t["m"]);
  CHECK(t.builder.dtype(t["c"]) == DType::f16);
}

TEST_CASE("neutral operands disappear") {
  for (const char* keep :
       {"a = Add(x, z)", "a = Add(z, x)", "a = Sub(x, z)", "a = Mul(x, o)", "a = Mul(o, x)", "a = Div(x, o)"}) {
    INFO(keep);
    CoreText t(cat("input x 2 3\nconst z = 0\nconst o 3 = 1 1 1\n", keep));
    CHECK(t["a"] == t["x"]);
  }
  for (const char* keep : {"a = Sub(z, x)", "a = Div(o, x)", "a = Add(x, o)", "a = Mul(x, z)", "a = Add(x, wide)"}) {
    INFO(keep);
    CoreText t(cat("input x 2 3\nconst z = 0\nconst o 3 = 1 1 1\nconst wide 4 1 1 = 0 0 0 0\n", keep));
    CHECK(t.graph.n_nodes() == 1);
  }
}

TEST_CASE("regions that are everything are nothing") {
  CHECK(ops_after("input x 2 3\na = Slice(x) {starts=[0 0]; steps=[1 1]; dims=[2 3]}") == "");
  CHECK(ops_after("input x 2 3\na = Slice(x) {starts=[1 0]; steps=[-1 1]; dims=[2 3]}") == "Slice");
  CHECK(ops_after("input x 2 3\na = Concat(x) {axis=1}") == "");
  CHECK(ops_after("input x 2 3\na = Expand(x) {dims=[2 3]}") == "");
  CHECK(ops_after("input x 3\na = Expand(x) {dims=[2 3]}") == "Expand");
  CHECK(ops_after("input x 3\ninput y 2 3\nconst c bool 3 = 1 1 1\na = Where(c, x, y)") == "Expand");
  CHECK(ops_after("input x 3\ninput y 2 3\nconst c bool 3 = 0 0 0\na = Where(c, x, y)") == "");
  CHECK(ops_after("input x 3\ninput y 3\nconst c bool 3 = 1 0 1\na = Where(c, x, y)") == "Where");
}

TEST_CASE("reductions are chained until each is over neighbouring axes") {
  CHECK(ops_after("input x 1 3 1\na = ReduceSum(x) {axes=[0 2]; keepdims=0}") == "Reshape");
  CHECK(ops_after("input x 2 3 4\na = ReduceSum(x) {axes=[1 2]; keepdims=0}") == "ReduceSum");
  CoreText t("input x 2 3 4\na = ReduceMax(x) {axes=[0 2]; keepdims=0}");
  CHECK(ops_of(t.graph) == "ReduceMax ReduceMax Reshape");
  CHECK(t.builder.dims(t["a"]) == Dims{3});
}

TEST_CASE("gathers of neighbouring rows are slices, of all rows in order views") {
  SourceNet s;
  const int x = s.input("x");
  const int first = s.constant("zero", HostTensor::scalar<int64_t>(0)), run = s.ints("run", {1, 2, -1}),
            mixed = s.ints("mixed", {2, 0});
  const int a = s.node("Gather", {x, first}, {{"axis", int64_t{1}}}), b = s.node("Gather", {x, run}),
            c = s.node("Gather", {x, mixed});
  const int all = s.ints("all", {0, 1, 2, 3}), d = s.node("Gather", {x, all});
  CHECK(ops_of(BoundNet(s, {{"x", {4, 5}}}, {a}).graph) == "Slice Reshape");
  CHECK(ops_of(BoundNet(s, {{"x", {4, 5}}}, {b}).graph) == "Slice");
  CHECK(ops_of(BoundNet(s, {{"x", {4, 5}}}, {c}).graph) == "GatherRows");
  CHECK(ops_of(BoundNet(s, {{"x", {4, 5}}}, {d}).graph) == "");
  const int pairs = s.constant("pairs", HostTensor::of<int64_t>({2, 2, 2}, {0, 0, 0, 1, 1, 0, 1, 1}));
  const int nd = s.node("GatherND", {x, pairs});
  const BoundNet iota(s, {{"x", {2, 2}}}, {nd});
  CHECK(ops_of(prune(iota.graph)) == "");  // the indices [[0,0],[0,1],[1,0],[1,1]] select all of x in order
  CHECK(ops_of(BoundNet(s, {{"x", {2, 3}}}, {nd}).graph) == "Reshape GatherRows Reshape");
}
