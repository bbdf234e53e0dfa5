// Slice hoisting moves slices before the operators that compute the sliced values: which nodes become smaller, and that
// numbers do not change.
#include "ops/passes/slice_hoisting.h"

#include <catch2/catch_all.hpp>

#include "tests/ops/same_graph.h"

using namespace amp;
using namespace amp::test;

namespace {

// Returns a graph that passes x, shape (2, 6, 8), through an encoder layer: residual sums, norms, products and dropout.
// `head` is the text of further nodes, which read the layer's result z.
std::string layer(const std::string& head, const std::string& dropout = "Dropout(f) {ratio=0.3; site=5; rows=2}") {
  return "input x 2 6 8\nparam e 2 6 8\nparam w 8 8\nparam p 8\nparam u 8 20\nparam c 20\nparam d 20 8\nparam g 8\n"
         "param h 8\nx = Add(x, e)\na = MatMul(x, w, p)\nr = Add(a, x)\ny, m, s = LayerNorm(r, g, h) {n=8; "
         "epsilon=1e-5}\n"
         "t = MatMul(y, u, c)\nt = Gelu(t)\nf = MatMul(t, d)\nf = " +
         dropout + "\nk = Add(f, y)\nz, q, v = LayerNorm(k, g, h) {n=8; epsilon=1e-5}\n" + head;
}
std::string loss_of(const std::string& v, const std::string& axes = "0 1 2") {
  return "\nl = Mul(" + v + ", " + v + ")\nloss = ReduceSum(l) {axes=[" + axes +
         "]; keepdims=0}\noutput loss\noutput " + v;
}
std::string first(int64_t start, int64_t step = 1, int64_t count = 1) {
  return cat("o = Slice(z) {starts=[0 ", start, " 0]; steps=[1 ", step, " 1]; dims=[2 ", count, " 8]}");
}

Graph hoisted(const Graph& g) { return hoist_slices(g, cpu_evaluator()); }
ValueId loss_in(const Graph& g) {
  for (const auto& o : g.outputs) {
    if (o.name == "loss") return o.value;
  }
  return {};
}

// Returns the rows of every MatMul of the graph, in order.
std::vector<int64_t> rows_of_products(const Graph& g) {
  std::vector<int64_t> rows;
  for (int32_t i = 0; i < g.n_nodes(); ++i) {
    const Node& n = g.node(NodeId{i});
    if (n.op->name == "MatMul") rows.push_back(numel(g.value(n.out[0]).dims) / g.value(n.out[0]).dims.back());
  }
  return rows;
}

// Checks that outputs are equal bit for bit. Gradients are sums over fewer rows (the others are zeros), possibly in
// other groups.
void check_same_numbers(const Graph& a, const Graph& b) {
  check_equal(training_graph(a, loss_in(a)), training_graph(b, loss_in(b)), 1e-5);
}

}  // namespace

TEST_CASE("values read at one token are computed at that token only, with the same dropout bits", "[slice_hoisting]") {
  const CoreText t(layer(first(0)) + loss_of("o"));
  const Graph g = hoisted(t.graph);
  CHECK(rows_of_products(t.graph) == std::vector<int64_t>{12, 12, 12});
  CHECK(rows_of_products(g) == std::vector<int64_t>{2, 2, 2});
  CHECK(count(g, "Slice") == 2);  // x is a sum, so both of its operands are sliced
  CHECK(count(g, "Dropout") == 1);
  check_same_numbers(t.graph, g);
}

TEST_CASE("slices of any place and step go up to what draws bits", "[slice_hoisting]") {
  for (const auto& [start, step, many] : {std::array<int64_t, 3>{3, 1, 1}, {1, 2, 3}, {0, 1, 4}}) {
    INFO(start << ' ' << step << ' ' << many);
    const CoreText with(layer(first(start, step, many)) + loss_of("o")),
        without(layer(first(start, step, many), "Neg(f)") + loss_of("o"));
    const Graph a = hoisted(with.graph), b = hoisted(without.graph);
    // Dropout's bits are numbered from a sample's first element, so other tokens would get other bits. Only slices from
    // the first token on can move before Dropout.
    CHECK(rows_of_products(a) == (start == 0 ? std::vector<int64_t>(3, 2 * many) : std::vector<int64_t>(3, 12)));
    CHECK(rows_of_products(b) == std::vector<int64_t>(3, 2 * many));
    check_same_numbers(with.graph, a);
    check_same_numbers(without.graph, b);
  }
}

TEST_CASE("values that are read in two ways stay whole", "[slice_hoisting]") {
  const std::string two =
      layer(first(0) + "\nb = Slice(z) {starts=[0 1 0]; steps=[1 1 1]; dims=[2 1 8]}\no = Add(o, b)");
  const CoreText both(two + loss_of("o")), kept(layer(first(0)) + loss_of("o") + "\noutput z"),
      inner(layer(first(0)) + loss_of("o") + "\noutput y");
  CHECK(rows_of_products(hoisted(both.graph)) == std::vector<int64_t>(3, 12));
  CHECK(rows_of_products(hoisted(kept.graph)) == std::vector<int64_t>(3, 12));
  const Graph part = hoisted(inner.graph);  // y is an output, so only nodes after it become smaller
  CHECK(rows_of_products(part) == std::vector<int64_t>{12, 2, 2});
  check_same_numbers(inner.graph, part);
}

TEST_CASE("slices of samples, of channels, of a norm's own axes, of what mixes tokens stay", "[slice_hoisting]") {
  const std::string sample = "o = Slice(z) {starts=[1 0 0]; steps=[1 1 1]; dims=[1 6 8]}",
                    channel = "o = Slice(z) {starts=[0 0 2]; steps=[1 1 1]; dims=[2 6 3]}";
  for (const std::string& head : {sample, channel}) {
    const CoreText t(layer(head) + loss_of("o"));
    CHECK(text_of(hoisted(t.graph)) == text_of(t.graph));
  }
  const CoreText over(
      "input x 2 6 8\nparam w 8 8\nparam g 48\na = MatMul(x, w)\ny, m, s = LayerNorm(a, g, ) {n=48; epsilon=1e-5}\n"
      "o = Slice(y) {starts=[0 0 0]; steps=[1 1 1]; dims=[2 1 8]}" +
      loss_of("o"));
  CHECK(rows_of_products(hoisted(over.graph)) == std::vector<int64_t>{12});
  // A product sums over tokens: w is the left operand.
  const CoreText left(
      "input x 2 6 8\nparam w 6 6\na = MatMul(w, x)\no = Slice(a) {starts=[0 0 0]; steps=[1 1 1]; dims=[2 1 8]}" +
      loss_of("o"));
  CHECK(rows_of_products(hoisted(left.graph)) == std::vector<int64_t>{12});
}

TEST_CASE("operands that broadcast along the cut axis are not cut", "[slice_hoisting]") {
  const CoreText t(
      "input x 2 6 8\nparam w 8 8\nparam one 8\nparam row 6 1\nparam place 1 8\na = MatMul(x, w)\nb = Mul(a, one)\n"
      "c = Add(b, row)\nd = Add(c, place)\no = Slice(d) {starts=[0 2 0]; steps=[1 1 1]; dims=[2 1 8]}" +
      loss_of("o"));
  const Graph g = hoisted(t.graph);
  CHECK(rows_of_products(g) == std::vector<int64_t>{2});
  CHECK(count(g, "Slice") == 2);  // a slice of x, and a slice of the column that has one number per token
  check_same_numbers(t.graph, g);
}

TEST_CASE("without a product nothing is rearranged", "[slice_hoisting]") {
  const CoreText t(
      "input x 2 6 8\nparam e 2 6 8\na = Add(x, e)\nb = Exp(a)\no = Slice(b) {starts=[0 0 0]; steps=[1 1 1]; dims=[2 1 "
      "8]}" +
      loss_of("o"));
  CHECK(text_of(hoisted(t.graph)) == text_of(t.graph));
}
