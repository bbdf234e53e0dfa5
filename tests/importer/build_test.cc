// Tests the conversion of a protobuf to a SourceGraph: inlining, names, order, structural errors.
#include "importer/read/build.h"

#include <algorithm>
#include <catch2/catch_approx.hpp>

#include "models.h"
#include "tests/support.h"

using namespace amp;
using namespace amp::test;

static std::vector<std::string> ops(const SourceGraph& g) {
  std::vector<std::string> out;
  for (const SourceNode& n : g.nodes) out.push_back(n.op);
  return out;
}

TEST_CASE("a plain graph is read as it stands", "[build]") {
  const TempDir f;
  const Imported m = import_text(f, kMlp);
  CHECK(ops(m.graph) == std::vector<std::string>{"MatMul", "Add", "Relu", "Reshape", "Gemm"});
  CHECK(m.graph.nodes[0].name == "MatMul_0");
  CHECK(m.graph.nodes[4].version == 17);
  CHECK(m.graph.inputs.size() == 1);
  const SourceValue& x = value(m.graph, "x");
  CHECK(x.kind == SourceKind::input);
  CHECK(x.dims.at(0).symbol == "N");
  CHECK(x.dims.at(1).value == 4);
  CHECK(m.graph.values[static_cast<size_t>(m.graph.outputs.at(0))].name == "y");
  CHECK(value(m.graph, "w0").data.to_doubles()[11] == 12);
}

TEST_CASE("nested functions are inlined, with attribute references and defaults", "[build]") {
  const TempDir f;
  const Imported m = import_text(f, R"(
    <ir_version: 10, opset_import: ["" : 17, "our" : 1]>
    g (float[N,4] x) => (float[N,4] y, float[N,4] same)
    { a = our.Block <slope: float = 0.3> (x)  t = our.Block (a)  y = Relu (t)  same = our.Pass (x) }
    <domain: "our", opset_import: ["" : 17, "our" : 1]> Block <slope: float = 0.5>(v) => (w)
    { k = our.Scale (v)  w = LeakyRelu <alpha: float = @slope> (k) }
    <domain: "our", opset_import: ["" : 17]> Scale (v) => (w)
    { table = Constant <value = float[4] {1, 2, 3, 4}> ()  w = Mul (v, table) }
    <domain: "our", opset_import: ["" : 17]> Pass (v) => (v)
    { unused = Relu (v) })");
  const SourceGraph& g = m.graph;
  CHECK(ops(g) == std::vector<std::string>{"Mul", "LeakyRelu", "Mul", "LeakyRelu", "Relu", "Relu", "Identity"});
  CHECK(g.nodes[1].attrs.f("alpha", 0) == Catch::Approx(0.3));
  CHECK(g.nodes[3].attrs.f("alpha", 0) == 0.5);
  CHECK(g.values[static_cast<size_t>(g.nodes[1].outputs[0])].name == "a");
  // The weight inside the function stays a single weight for all calls, and keeps its name in the function.
  CHECK(g.nodes[0].inputs[1] == g.nodes[2].inputs[1]);
  CHECK(value(g, "table").kind == SourceKind::parameter);
  CHECK(g.values[static_cast<size_t>(g.outputs[1])].name == "same");
  CHECK(g.nodes[6].inputs[0] == g.inputs[0]);
}

TEST_CASE("functions that call each other in a cycle are refused", "[build]") {
  const TempDir f;
  const std::string path = save(f, parse(R"(
    <ir_version: 10, opset_import: ["" : 17, "our" : 1]> g (float[N] x) => (float[N] y) { y = our.A (x) }
    <domain: "our", opset_import: ["our" : 1]> A (v) => (w) { w = our.B (v) }
    <domain: "our", opset_import: ["our" : 1]> B (v) => (w) { w = our.A (v) })"));
  expect(import_error(path), Exit::model, "E_FUNC_CYCLE", "A -> B -> A");
}

TEST_CASE("functions that multiply do not run away", "[build]") {
  const TempDir f;
  std::string text =
      R"(<ir_version: 10, opset_import: ["" : 17, "our" : 1]> g (float[N] x) => (float[N] y) { y = our.F0 (x) })";
  for (int i = 0; i < 40; ++i) {
    text += cat("<domain: \"our\", opset_import: [\"\" : 17, \"our\" : 1]> F", i, " (v) => (w) { a = our.F", i + 1,
                " (v)  w = our.F", i + 1, " (a) }\n");
  }
  text += R"(<domain: "our", opset_import: ["" : 17]> F40 (v) => (w) { w = Relu (v) })";
  expect(import_error(save(f, parse(text))), Exit::unsupported, "E_NODES", "`max_graph_nodes`");
}

TEST_CASE("an If with a constant condition becomes its branch", "[build]") {
  const TempDir f;
  const Imported m = import_model(kData + "struct_if_hand16.onnx");
  CHECK(ops(m.graph) == std::vector<std::string>{"MatMul", "Add", "Relu", "MatMul", "Add"});
  CHECK(value(m.graph, "w1").kind == SourceKind::parameter);
  CHECK(m.graph.values[static_cast<size_t>(m.graph.outputs[0])].name == "logits");
  CHECK(m.graph.values[static_cast<size_t>(m.graph.outputs[0])].producer == 4);
}

TEST_CASE("an If with a computed condition stays, and what its branches read is live", "[build]") {
  const TempDir f;
  const Imported m = import_text(f, R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[N,4] x, bool c) => (float[N,3] y) <float[4,3] w = {1,2,3,4,5,6,7,8,9,10,11,12}>
    { h = MatMul (x, w)
      y = If (c) <then_branch = t () => (float[N,3] a) { a = Relu (h) }, else_branch = e () => (float[N,3] b) { b = Neg (h) }> })");
  REQUIRE(ops(m.graph) == std::vector<std::string>{"MatMul", "If"});
  const auto then_branch = m.graph.nodes[1].attrs.graph("then_branch");
  REQUIRE(then_branch);
  CHECK(then_branch->nodes.at(0).op == "Relu");
  CHECK(captures(m.graph.nodes[1]) == std::vector<std::string>{"h", "h"});
  CHECK(value(m.graph, "w").trainable);
}

TEST_CASE("Constant nodes of every form, initializers among the inputs, optional inputs", "[build]") {
  const TempDir f;
  const Imported m = import_text(f, R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[N,4] x, float hi) => (float[N,4] y) <float hi = {6}>
    { a = Constant <value_float: float = 1.5> ()  b = Constant <value_floats: floats = [1.0, 2.0, 3.0, 4.0]> ()
      c = Constant <value_ints: ints = [0, -1]> ()  d = Constant <value_int: int = 3> ()
      e = Clip (x, , hi)  y = Add (e, b) })");
  CHECK(value(m.graph, "a").data.to_doubles() == std::vector<double>{1.5});
  CHECK(value(m.graph, "a").data.rank() == 0);
  CHECK(value(m.graph, "b").data.to_doubles() == std::vector<double>{1, 2, 3, 4});
  CHECK(value(m.graph, "c").data.to_ints() == std::vector<int64_t>{0, -1});
  CHECK(value(m.graph, "d").data.rank() == 0);
  CHECK(m.graph.inputs.size() == 1);
  CHECK(m.graph.nodes[0].inputs[1] == -1);
}

TEST_CASE("Identity of a weight is the weight", "[build]") {
  const TempDir f;
  const Imported m = import_text(f, R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[N,2] x) => (float[N,2] y, float[2,2] shown) <float[2,2] w = {1,2,3,4}>
    { a = Identity (w)  b = Identity (a)  h = MatMul (x, a)  y = MatMul (h, b)  shown = Identity (b) })");
  CHECK(ops(m.graph) == std::vector<std::string>{"MatMul", "MatMul", "Identity"});
  const int w = m.graph.find("w");
  CHECK(m.graph.nodes[0].inputs[1] == w);
  CHECK(m.graph.nodes[1].inputs[1] == w);
  CHECK(m.graph.find("a") == -1);
  CHECK(m.graph.values[static_cast<size_t>(m.graph.outputs[1])].name == "shown");
}

TEST_CASE("unsorted nodes are sorted, cycles are refused with their path", "[build]") {
  const TempDir f;
  onnx::ModelProto m = parse(kMlp);
  auto& nodes = *m.mutable_graph()->mutable_node();
  std::reverse(nodes.begin(), nodes.end());
  const Imported sorted = import_model(save(f, m));
  CHECK(ops(sorted.graph) == std::vector<std::string>{"MatMul", "Add", "Relu", "Reshape", "Gemm"});
  CHECK(std::any_of(sorted.notes.begin(), sorted.notes.end(),
                    [](const auto& n) { return n.find("sorted") != std::string::npos; }));
  m = parse(kMlp);
  m.mutable_graph()->mutable_node(0)->set_input(0, "s");
  expect(import_error(save(f, m)), Exit::model, "E_GRAPH_CYCLE", "(Reshape, #3)");
}

TEST_CASE("broken structure", "[build]") {
  const TempDir f;
  const auto broken = [&](auto change, const std::string& id, const std::string& text) {
    onnx::ModelProto m = parse(kMlp);
    change(*m.mutable_graph());
    expect(import_error(save(f, m)), Exit::model, id, text);
  };
  using G = onnx::GraphProto;
  broken([](G& g) { g.mutable_node(1)->set_input(0, "nowhere"); }, "E_DANGLING", "nowhere");
  broken([](G& g) { g.mutable_output(0)->set_name("nowhere"); }, "E_DANGLING", "nowhere");
  broken([](G& g) { g.mutable_node(1)->set_output(0, "h"); }, "E_SSA", "(MatMul, #0)");
  broken([](G& g) { g.mutable_node(1)->set_output(0, "w1"); }, "E_SSA", "w1");
  broken([](G& g) { *g.add_initializer() = g.initializer(0); }, "E_DUP_INIT", "w0");
  broken([](G& g) { *g.add_input() = g.input(0); }, "E_DUP_INIT", "'x'");
  broken([](G& g) { g.mutable_initializer(0)->set_name("a\x1b[31m"); }, "E_NAME", "\\x1b");
  broken([](G& g) { g.mutable_initializer(0)->set_name(""); }, "E_NAME", "no name");
  broken([](G& g) { g.mutable_initializer(0)->set_name(std::string(5000, 'a')); }, "E_NAME", "5000");
  broken([](G& g) { g.mutable_initializer(0)->set_name("a\xc3("); }, "E_UTF8", "0xc3");
  broken(
      [](G& g) {
        auto& a = *g.mutable_node(4)->add_attribute();
        a.set_name("alpha"), a.set_type(onnx::AttributeProto::FLOAT);
        *g.mutable_node(4)->add_attribute() = a;
      },
      "E_ATTR", "twice");
}

TEST_CASE("a chain of 100,000 nodes needs no stack", "[build]") {
  const TempDir f;
  onnx::ModelProto m =
      parse(R"(<ir_version: 8, opset_import: ["" : 17]> g (float[N] x) => (float[N] v100000) { v0 = Relu (x) })");
  for (int i = 1; i <= 100000; ++i) {
    auto& n = *m.mutable_graph()->add_node();
    n.set_op_type("Relu");
    n.add_input(cat("v", i - 1));
    n.add_output(cat("v", i));
  }
  const Imported long_chain = import_model(save(f, m));
  CHECK(long_chain.graph.nodes.size() == 100001);
  std::reverse(m.mutable_graph()->mutable_node()->begin(), m.mutable_graph()->mutable_node()->end());
  CHECK(import_model(save(f, m)).graph.nodes.size() == 100001);
}
