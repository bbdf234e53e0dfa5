// bind(): shapes become concrete, parameters get slots, and errors name their node.
#include "graph/bind.h"

#include <catch2/catch_all.hpp>
#include <functional>

#include "tests/errors.h"
#include "tests/graph/core_text.h"
#include "tests/graph/source_net.h"

using namespace amp;
using namespace amp::test;

namespace {

bool names_node(const Error& e, const std::string& op) {
  for (const std::string& w : e.where()) {
    if (w.find("/net/" + op) != std::string::npos && w.find("(" + op) != std::string::npos) return true;
  }
  return false;
}

}  // namespace

TEST_CASE("shape arithmetic disappears") {
  // The exporters' flattening: Reshape(x, Concat(Gather(Shape(x), 0), -1))
  SourceNet s;
  const int x = s.input("x"), zero = s.ints("zero", {0}), rest = s.ints("rest", {-1});
  const int shape = s.node("Shape", {x}), batch = s.node("Gather", {shape, zero});
  const int to = s.node("Concat", {batch, rest}, {{"axis", int64_t{0}}}), y = s.node("Reshape", {x, to});
  const BoundNet b(s, {{"x", {2, 3, 4}}}, {y});
  CHECK(text_of(b.graph) == "t0 float32[2,12] = Reshape(x)\noutput y0 = t0\n");
  CHECK(b.graph.node(NodeId{0}).origin.source_node == 3);
}

TEST_CASE("a shape that depends on data is refused with its node") {
  SourceNet s;
  const int x = s.input("x"), n = s.input("n", DType::i64), y = s.node("Reshape", {x, n});
  const Error e = error_of([&] { BoundNet(s, {{"x", {6}}, {"n", {2}}}, {y}); });
  CHECK(e.id() == "E_DYNAMIC");
  CHECK(e.exit() == Exit::unsupported);
  CHECK(names_node(e, "Reshape"));
  CHECK_FALSE(e.hint().empty());
}

TEST_CASE("bad nodes are refused with what is wrong and where") {
  SourceNet s;
  const int x = s.input("x"), w = s.param("w", {4, 2}), axes = s.ints("axes", {5});
  const auto refused = [&](int out, const std::string& op, const std::string& id, Exit exit) {
    const Error e = error_of([&] { BoundNet(s, {{"x", {2, 3}}}, {out}); });
    INFO(e.what());
    CHECK(e.id() == id);
    CHECK(e.exit() == exit);
    CHECK(names_node(e, op));
  };
  refused(s.node("MatMul", {x, w}), "MatMul", "E_SHAPE", Exit::model);
  refused(s.node("Add", {x}), "Add", "E_ATTR", Exit::model);  // Add lacks its second input
  refused(s.node("Transpose", {x}, {{"perm", std::vector<int64_t>{0, 0}}}), "Transpose", "E_ATTR", Exit::model);
  refused(s.node("Softmax", {x}, {{"axis", 0.5}}), "Softmax", "E_ATTR", Exit::model);
  refused(s.node("NoSuchOperator", {x}), "NoSuchOperator", "E_OP_DOMAIN", Exit::unsupported);
  // HardSwish exists since opset 14.
  refused(s.node("HardSwish", {x}, {}, 9), "HardSwish", "E_OP_DOMAIN", Exit::unsupported);
  refused(s.node("ScatterND", {x, axes, x}, {{"reduction", std::string("mean")}}), "ScatterND", "E_OP_CASE",
          Exit::unsupported);
}

TEST_CASE("an axis out of range is a model error") {
  SourceNet s;
  const int x = s.input("x"), y = s.node("Softmax", {x}, {{"axis", int64_t{2}}});
  const Error e = error_of([&] { BoundNet(s, {{"x", {2, 3}}}, {y}); });
  CHECK(e.exit() == Exit::model);
  CHECK(names_node(e, "Softmax"));
}

TEST_CASE("missing data and dangling values are told apart") {
  SourceNet s;
  const int x = s.input("x"), y = s.node("Exp", {x});
  const Error missing = error_of([&] { BoundNet(s, {}, {y}); });
  CHECK(missing.id() == "E_INPUT");
  CHECK(missing.exit() == Exit::usage);
  CHECK_THAT(missing.fact(), Catch::Matchers::ContainsSubstring("'x'"));
  SourceValue nobody;
  nobody.name = "nobody";
  const int v = s.g.add_value(nobody), z = s.node("Exp", {v});
  const Error dangling = error_of([&] { BoundNet(s, {{"x", {2}}}, {z}); });
  CHECK(dangling.id() == "E_DANGLING");
  CHECK(dangling.exit() == Exit::model);
}

TEST_CASE("only what the outputs need is bound") {
  SourceNet s;
  const int x = s.input("x"), extra = s.input("extra"), y = s.node("Exp", {x}),
            broken = s.node("NoSuchOperator", {y, extra});
  const BoundNet b(s, {{"x", {2}}}, {y});
  CHECK(ops_of(b.graph) == "Exp");
  CHECK(needed_inputs(s.g, {y}) == std::vector<int>{x});
  CHECK(needed_inputs(s.g, {broken}) == std::vector<int>{x, extra});
  CHECK(unknown_operators(s.g, {y}).empty());
  CHECK(unknown_operators(s.g, {broken}) == std::vector<int>{1});
  CHECK(live_nodes(s.g, {y}) == std::vector<bool>{true, false});
}

TEST_CASE("tied parameters share a slot, transposed copies too") {
  SourceNet s;
  const int x = s.input("x"), w = s.param("w", {2, 3}), copy = s.param("copy", {3, 2}), other = s.param("other", {3});
  s.g.values[static_cast<size_t>(copy)].tied_to = w;
  s.g.values[static_cast<size_t>(copy)].tied_transposed = true;
  const int a = s.node("MatMul", {x, w}), b = s.node("Add", {a, other}), c = s.node("MatMul", {b, copy});
  const BoundNet net(s, {{"x", {4, 2}}}, {c});
  CHECK(net.params.size() == 2);
  CHECK(net.params.slot_of[static_cast<size_t>(w)] == net.params.slot_of[static_cast<size_t>(copy)]);
  int params = 0;
  for (int32_t i = 0; i < net.graph.n_values(); ++i) params += net.graph.value(ValueId{i}).kind == ValueKind::param;
  CHECK(params == 2);
  CHECK(ops_of(net.graph) == "MatMul Add Transpose MatMul");
}

TEST_CASE("the working type replaces the file's floating types") {
  SourceNet s;
  const int x = s.input("x", DType::f16), ids = s.input("ids", DType::i64), w = s.param("w", {3});
  const int a = s.node("Add", {x, w}), b = s.node("Cast", {a}, {{"to", int64_t{10}}}),
            c = s.node("Cast", {ids}, {{"to", int64_t{1}}});
  const int y = s.node("Add", {b, c});
  Graph g;
  Builder builder(g, cpu_evaluator());
  BindOptions o;
  o.float_type = DType::f64;
  o.input_dims = {{"x", {3}}, {"ids", {3}}};
  o.outputs = {y};
  const ParamTable params(s.g);
  bind(s.g, params, o, builder);
  CHECK(ops_of(g) == "Add Cast Add");  // the cast between floating types was removed
  for (int32_t i = 0; i < g.n_values(); ++i) {
    const DType t = g.value(ValueId{i}).dtype;
    CHECK((t == DType::f64 || t == DType::i64));
  }
}

TEST_CASE("shapes can be probed without a graph of one's own") {
  SourceNet s;
  const int x = s.input("x"), w = s.param("w", {4, 2}), y = s.node("MatMul", {x, w}), z = s.node("Exp", {x});
  BindOptions o;
  o.input_dims = {{"x", {3, 4}}};
  o.outputs = {y};
  const std::vector<Dims> dims = probe_shapes(s.g, ParamTable(s.g), o, cpu_evaluator());
  CHECK(dims[static_cast<size_t>(y)] == Dims{3, 2});
  CHECK(dims[static_cast<size_t>(x)] == Dims{3, 4});
  CHECK(dims[static_cast<size_t>(z)].empty());
}
