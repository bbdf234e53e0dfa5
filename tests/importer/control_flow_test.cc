// Tests If, Loop and Scan whose branches and counts follow from shapes, and operators that are computed by their
// function body in the ONNX standard.
#include <algorithm>
#include <catch2/catch_approx.hpp>
#include <cmath>

#include "models.h"
#include "run.h"
#include "tests/support.h"

using namespace amp;
using namespace amp::test;

namespace {

Error bind_error(const SourceGraph& g, const std::map<std::string, HostTensor>& feeds) {
  try {
    run(g, feeds);
  } catch (const Error& e) {
    return e;
  }
  FAIL("no error");
  throw 0;
}

bool noted(const Imported& m, const std::string& text) {
  return std::any_of(m.notes.begin(), m.notes.end(),
                     [&](const std::string& n) { return n.find(text) != std::string::npos; });
}

}  // namespace

TEST_CASE("an If whose condition follows from the input's shape takes its branch once the shape is known",
          "[control]") {
  const TempDir f;
  const Imported m = import_text(f, R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[N,2] x) => (float[N,2] y) <float[2,2] w = {1,2,3,4}, int64 two = {2}, int64 zero = {0}>
    { s = Shape (x)  n = Gather (s, zero)  c = Equal (n, two)  h = MatMul (x, w)
      y = If (c) <then_branch = t () => (float[N,2] a) { k = Neg (h)  a = Mul (k, h) },
                  else_branch = e () => (float[N,2] b) { b = Add (h, x) }> })");
  CHECK(value(m.graph, "w").trainable);
  const Numbers two = run(m.graph, {{"x", floats({2, 2}, {1, 0, 0, 1})}}).out.at("y").to_doubles();
  CHECK(two == Numbers{-1, -4, -9, -16});
  const Numbers one = run(m.graph, {{"x", floats({1, 2}, {1, 1})}}).out.at("y").to_doubles();
  CHECK(one == Numbers{5, 7});
}

TEST_CASE("an If that depends on the data is refused with its name", "[control]") {
  const TempDir f;
  const Imported m = import_text(f, R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[N] x) => (float[N] y) <float zero = {0}>
    { s = ReduceSum <keepdims = 0> (x)  c = Greater (s, zero)
      [deciding] y = If (c) <then_branch = t () => (float[N] a) { a = Neg (x) }, else_branch = e () => (float[N] b) { b = Relu (x) }> })");
  const Error e = bind_error(m.graph, {{"x", floats({2}, {1, 2})}});
  expect(e, Exit::unsupported, "E_DYNAMIC", "the condition of If");
  CHECK(std::string(e.what()).find("deciding") != std::string::npos);
}

TEST_CASE("a Loop is unrolled: the same numbers and gradients as the turns written out", "[control]") {
  const TempDir f;
  const Imported loop = import_text(f, R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[N,2] x) => (float[N,2] y, float[M,N,2] all) <float[2,2] w = {0.1,-0.2,0.3,0.4}, int64 zero = {0}, int64 one = {1}, bool yes = {1}>
    { s = Shape (x)  n = Gather (s, zero)  turns = Add (n, one)
      y, all = Loop (turns, yes, x) <body = b (int64 i, bool go, float[N,2] h) => (bool on, float[N,2] next, float[N,2] kept)
        { on = Identity (go)  p = MatMul (h, w)  fi = Cast <to = 1> (i)  q = Add (p, fi)  next = Tanh (q)  kept = Mul (h, h) }> })");
  const Imported flat = import_text(f, R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[N,2] x) => (float[N,2] y) <float[2,2] w = {0.1,-0.2,0.3,0.4}, float k1 = {1}, float k2 = {2}>
    { p0 = MatMul (x, w)  h0 = Tanh (p0)  p1 = MatMul (h0, w)  q1 = Add (p1, k1)  h1 = Tanh (q1)
      p2 = MatMul (h1, w)  q2 = Add (p2, k2)  y = Tanh (q2) })");
  const std::map<std::string, HostTensor> feeds{{"x", floats({2, 2}, {1, 2, -1, 0.5})}};
  const Run a = run(loop.graph, feeds, true), b = run(flat.graph, feeds, true);
  CHECK(a.out.at("y").to_doubles() == b.out.at("y").to_doubles());
  CHECK(a.grads.at("w").to_doubles() == b.grads.at("w").to_doubles());
  CHECK(a.out.at("all").dims() == Dims{3, 2, 2});
  CHECK(a.out.at("all").to_doubles()[1] == 4);
}

TEST_CASE("a Loop ends when its condition turns false; no turn gives empty stacks", "[control]") {
  const TempDir f;
  const auto text = [](int turns) {
    return cat(R"(<ir_version: 8, opset_import: ["" : 17]>
    g (float[2] x) => (float[2] y, float[M,2] all) <int64 n = {)",
               turns, R"(}, bool yes = {1}, int64 last = {2}>
    { y, all = Loop (n, yes, x) <body = b (int64 i, bool go, float[2] h) => (bool on, float[2] next, float[2] kept)
        { on = Less (i, last)  next = Add (h, h)  kept = Identity (h) }> })");
  };
  const std::map<std::string, HostTensor> feeds{{"x", floats({2}, {1, 3})}};
  const Run stopped = run(import_text(f, text(9)).graph, feeds);
  CHECK(stopped.out.at("y").to_doubles() == Numbers{8, 24});
  CHECK(stopped.out.at("all").dims() == Dims{3, 2});
  const Run none = run(import_text(f, text(0)).graph, feeds);
  CHECK(none.out.at("y").to_doubles() == Numbers{1, 3});
  CHECK(none.out.at("all").dims() == Dims{0, 2});
}

TEST_CASE("Scan carries states over a sequence, either way", "[control]") {
  const TempDir f;
  const Imported m = import_text(f, R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[B] s, float[B,T] x) => (float[B] last, float[B,T] sums)
    { last, sums = Scan <num_scan_inputs = 1, scan_input_axes = [1], scan_input_directions = [1], scan_output_axes = [1], scan_output_directions = [1],
        body = b (float[B] state, float[B] e) => (float[B] next, float[B] shown) { next = Add (state, e)  shown = Identity (next) }> (s, x) })");
  const Run r = run(m.graph, {{"s", floats({2}, {10, 20})}, {"x", floats({2, 3}, {1, 2, 3, 4, 5, 6})}});
  CHECK(r.out.at("last").to_doubles() == Numbers{16, 35});
  CHECK(r.out.at("sums").to_doubles() == Numbers{16, 15, 13, 35, 31, 26});
}

TEST_CASE("an operator without a lowering is computed by its definition in the standard", "[control]") {
  const TempDir f;
  const Imported m = import_text(f, R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[8] x) => (float[8] y) <int64 n = {8}, float[8] scale = {1,2,3,4,5,6,7,8}>
    { w = HannWindow <periodic = 0> (n)  a = Mul (x, w)  y = Mul (a, scale) })");
  CHECK(noted(m, "HannWindow is computed by its definition"));
  for (const SourceValue& v : m.graph.values) {
    INFO(v.name << ": " << v.reason);
    CHECK((v.kind != SourceKind::parameter || v.name == "scale"));
  }
  const Numbers y = run(m.graph, {{"x", floats({8}, Numbers(8, 1))}}).out.at("y").to_doubles();
  for (size_t i = 0; i < 8; ++i) {
    const double hann = 0.5 - 0.5 * std::cos(2 * 3.14159265358979 * static_cast<double>(i) / 7);
    CHECK(y[i] == Catch::Approx(hann * static_cast<double>(i + 1)).margin(1e-6));
  }
}

TEST_CASE("definitions are expanded inside functions too, drawn numbers follow their probability", "[control]") {
  const TempDir f;
  const Imported m = import_text(f, R"(
    <ir_version: 10, opset_import: ["" : 22, "our" : 1]>
    g (float[64] x) => (float[64] y, float[64] window) { y, window = our.Noisy (x) }
    <domain: "our", opset_import: ["" : 22]> Noisy (v) => (w, h)
    { k = Sigmoid (v)  d = Bernoulli (k)  w = Mul (v, d)  n = Constant <value_int = 64> ()  h = HammingWindow (n) })");
  CHECK(noted(m, "HammingWindow is computed by its definition"));
  const Run r = run(m.graph, {{"x", floats({64}, Numbers(64, 1))}});
  const Numbers y = r.out.at("y").to_doubles();
  CHECK(std::all_of(y.begin(), y.end(), [](double v) { return v == 0 || v == 1; }));
  CHECK(std::count(y.begin(), y.end(), 1.0) > 36);  // expected: 46.8 ones, standard deviation 3.5
  CHECK(std::count(y.begin(), y.end(), 0.0) > 5);
  CHECK(r.out.at("window").to_doubles()[32] == Catch::Approx(1).margin(1e-3));
}

// ONNX forbids that a branch defines a name which a value outside has. If a node defines such a name, onnxruntime 1.32
// refuses the file. If an initializer has such a name, onnxruntime reads the inner or the outer value, depending on its
// level of optimization; onnx.reference reads the outer value.
TEST_CASE("a value in a branch with the name of one outside is refused", "[control]") {
  const TempDir f;
  const auto branches = [](const std::string& condition, const std::string& then) {
    return R"(<ir_version: 8, opset_import: ["" : 17]>
      g (float[2] x, bool c) => (float[2] y) <float[2] v = {3, 3}, float[2] k = {4, 4}, bool yes = {1}>
      { u = Add (x, k)  z = If ()" +
           condition + R"() <then_branch = )" + then +
           R"(, else_branch = e () => (float[2] o) { o = Identity (x) }>  w = Neg (x)  m = Mul (z, v)  y = Add (m, w) })";
  };
  for (const std::string condition : {"c", "yes"}) {  // with "c" the If remains; with "yes" its branch is inlined
    INFO(condition);
    const auto refused = [&](const std::string& then, const std::string& name) {
      INFO(then);
      expect(import_error(save(f, parse(branches(condition, then)))), Exit::model, "E_SSA", "'" + name + "'");
    };
    refused("t () => (float[2] t) <float[2] v = {10, 10}> { t = Mul (x, v) }", "v");  // v: an initializer outside
    refused("t () => (float[2] t) <float[2] u = {10, 10}> { t = Mul (x, u) }", "u");  // u: a node's output outside
    refused("t () => (float[2] t) <float[2] x = {10, 10}> { t = Mul (x, v) }", "x");  // x: an input of the graph
    refused("t () => (float[2] t) { v = Neg (x)  t = Mul (x, v) }", "v");
    refused("t () => (float[2] t) { u = Constant <value = float[2] {10, 10}> ()  t = Mul (x, u) }", "u");
    refused("t () => (float[2] x) { x = Neg (u) }", "x");
    const auto taken = [&](const std::string& then, const Numbers& want) {
      INFO(then);
      const Imported m = import_model(save(f, parse(branches("yes", then))));
      CHECK(run(m.graph, {{"x", floats({2}, {1, 2})}}).out.at("y").to_doubles() == want);
    };
    // A branch may define names that it does not read, names of later outer values, and the name of the If's result.
    taken("t () => (float[2] t) <float[2] v = {10, 10}> { t = Mul (x, k) }", {4 * 3 - 1, 8 * 3 - 2});
    taken("t () => (float[2] t) { w = Add (x, k)  t = Mul (x, w) }", {5 * 3 - 1, 12 * 3 - 2});
    taken("t () => (float[2] z) { z = Mul (x, k) }", {4 * 3 - 1, 8 * 3 - 2});
  }
}

TEST_CASE("a body's input with the name of a value outside is the body's", "[control]") {
  const TempDir f;
  // As in onnxruntime 1.32, a is 2, the loop squares it to 4 and 16, and the initializer 3 multiplies the result.
  const Imported m = import_text(f, R"(<ir_version: 8, opset_import: ["" : 17]>
    g (float[1] x) => (float[1] y) <float[1] v = {3}, int64 n = {2}, bool go = {1}>
    { a = Add (x, x)
      z = Loop (n, go, a) <body = b (int64 i, bool c, float[1] v) => (bool d, float[1] s)
                                  { d = Identity (c)  s = Mul (v, v) }>
      y = Mul (z, v) })");
  CHECK(run(m.graph, {{"x", floats({1}, {1})}}).out.at("y").to_doubles() == Numbers{48});
}
