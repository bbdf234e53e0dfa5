// Which nodes become part of an NHWC region (ops/passes/channels_last.h), and which transposes are inserted at its
// border.
#include <algorithm>
#include <catch2/catch_all.hpp>

#include "backend/channels_last.h"
#include "backend/interpreter.h"
#include "base/error.h"
#include "graph/builder.h"
#include "ops/passes/channels_last.h"
#include "ops/passes/fuse.h"

using namespace amp;

namespace {

struct Model {
  Graph graph;
  Builder b{graph, cpu_evaluator()};

  ValueId input(const char* name, const Dims& d, DType t = DType::bf16) { return graph.add_input(name, t, d); }
  // Adds a 3 x 3 convolution with padding; its weight is called "wN".
  ValueId conv(ValueId x, int64_t out) {
    const int64_t in = b.dims(x)[1];
    const ValueId w = graph.add_input(cat("w", weights++), DType::bf16, {out, in, 3, 3});
    return b.op("Conv", {x, w},
                {{"strides", Dims{1, 1}}, {"dilations", Dims{1, 1}}, {"pads", Dims(4, 1)}, {"group", int64_t{1}}});
  }
  Graph chained(ValueId y) {
    graph.outputs = {{"y", y}};
    return form_nhwc_regions(graph, false, cpu_evaluator());
  }
  int weights = 0;
};

// Returns the shapes of the transposed tensors, in the order of the graph.
std::vector<Dims> moved(const Graph& g) {
  std::vector<Dims> out;
  for (int32_t n = 0; n < g.n_nodes(); ++n) {
    if (g.node(NodeId{n}).op->name == "Transpose") out.push_back(g.value(g.node(NodeId{n}).in[0]).dims);
  }
  return out;
}
std::vector<const Node*> nodes(const Graph& g, const std::string& op) {
  std::vector<const Node*> out;
  for (int32_t n = 0; n < g.n_nodes(); ++n) {
    if (g.node(NodeId{n}).op->name == op) out.push_back(&g.node(NodeId{n}));
  }
  return out;
}
bool all_last(const Graph& g, const char* op) {
  const auto found = nodes(g, op);
  return !found.empty() && std::all_of(found.begin(), found.end(), [](auto* n) { return has_channels_last(n->attrs); });
}

}  // namespace

TEST_CASE("a single convolution keeps its layout, because transposes would cost as much", "[cuda][channels_last]") {
  Model m;
  const Graph g = m.chained(m.conv(m.input("x", {2, 8, 6, 6}), 8));
  CHECK(moved(g).empty());
  CHECK(!all_last(g, "Conv"));
}

TEST_CASE("an NHWC region transposes each tensor at its border once", "[cuda][channels_last]") {
  Model m;
  const ValueId x = m.input("x", {2, 3, 6, 6}), a = m.b.op("Relu", {m.conv(x, 8)}), c = m.conv(a, 8);
  const Graph g = m.chained(m.b.op("Add", {m.b.op("Concat", {a, c}, {{"axis", int64_t{1}}}), m.conv(x, 16)}));
  CHECK(moved(g) == std::vector<Dims>{{2, 3, 6, 6}, {8, 3, 3, 3}, {8, 8, 3, 3}, {16, 3, 3, 3}, {2, 6, 6, 16}});
  CHECK(all_last(g, "Conv"));
  CHECK(nodes(g, "Concat")[0]->attrs.i("axis", 0) == 3);
  CHECK(g.value(g.outputs[0].value).dims == Dims{2, 16, 6, 6});
}

TEST_CASE("images are transposed after their cast to 16 bits", "[cuda][channels_last]") {
  Model m;
  const ValueId image = m.b.cast(m.input("x", {2, 3, 6, 6}, DType::f32), DType::bf16);
  const Graph g = m.chained(m.conv(m.b.op("Relu", {m.conv(image, 8)}), 8));
  const auto moves = nodes(g, "Transpose");
  REQUIRE(moves.size() == 4);
  for (const Node* n : moves) CHECK(g.value(n->in[0]).dtype == DType::bf16);
}

TEST_CASE("a model's own transposes next to an NHWC region are removed", "[cuda][channels_last]") {
  Model m;
  const ValueId y = m.conv(m.b.op("Relu", {m.conv(m.input("x", {2, 8, 6, 6}), 8)}), 8);
  const ValueId rows = m.b.reshape(m.b.transpose(y, {0, 2, 3, 1}), {72, 8}),
                back = m.b.transpose(m.b.reshape(m.b.op("Softmax", {rows}, {{"axis", int64_t{1}}}), {2, 6, 6, 8}),
                                     {0, 3, 1, 2});
  const Graph g = m.chained(m.b.op("Tanh", {m.conv(m.conv(back, 8), 8)}));
  // The image, four weights and the output are transposed.
  CHECK(moved(g).size() == 6);
  CHECK(g.value(nodes(g, "Softmax")[0]->in[0]).dims == Dims{72, 8});
}

TEST_CASE("operands that broadcast and Dropout belong to an NHWC region", "[cuda][channels_last]") {
  Model m;
  ValueId y = m.conv(m.input("x", {2, 8, 6, 6}), 8);
  y = m.b.op("Add", {y, m.input("bias", {8, 1, 1})});
  y = m.b.op("Dropout", {y}, {{"ratio", 0.5}, {"site", int64_t{1}}, {"rows", int64_t{2}}});
  const Graph g = m.chained(m.b.op("Relu", {m.conv(y, 8)}));
  CHECK(moved(g).size() == 4);  // of x, two weights and the output; the bias needs no transpose
  CHECK(all_last(g, "Dropout"));
  CHECK(g.value(nodes(g, "Add")[0]->in[1]).dims == Dims{1, 1, 1, 8});
  CHECK(nodes(fuse_elementwise(g), "Dropout").size() == 1);  // not fused: its random bits would differ
}
