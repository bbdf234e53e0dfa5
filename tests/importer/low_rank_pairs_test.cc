// Tests that adapters of low rank in a file are found by their structure, and that only their factors A and B train.
#include "importer/discover/low_rank_pairs.h"

#include <cmath>

#include "base/text.h"
#include "tests/importer/models.h"

using namespace amp;
using namespace amp::test;

namespace {

std::string numbers(int n, int shift) {
  std::vector<std::string> all;
  for (int i = 0; i < n; ++i) all.push_back(cat(std::sin(i * i + 7.0 * i + shift)));
  return join(all, ",");
}

// Returns a file with x [N,8], W [8,6], two factors A [8,2] and B [2,6], and the scalar s. Names
// get a dot, as in PyTorch; the text form does not allow one.
onnx::ModelProto model(const std::string& nodes) {
  onnx::ModelProto m =
      parse(cat(R"(<ir_version: 8, opset_import: ["" : 17], producer_name: "pytorch"> g
    (float[N,8] x, float[N,8] x2) => (float[N,6] y) <float[8,6] m_W = {)",
                numbers(48, 1), "}, float[8,2] m_first = {", numbers(16, 2), "}, float[2,6] m_second = {",
                numbers(12, 3), "}, float m_gain = {1.5}, float[6] m_bias = {", numbers(6, 4), "}> { ", nodes, " }"));
  const auto dotted = [](std::string* name) {
    if (name->starts_with("m_")) (*name)[1] = '.';
  };
  for (auto& t : *m.mutable_graph()->mutable_initializer()) dotted(t.mutable_name());
  for (auto& n : *m.mutable_graph()->mutable_node()) {
    for (auto& input : *n.mutable_input()) dotted(&input);
  }
  return m;
}

struct Found {
  bool factors, scale, trains;  // factors: m.first and m.second are; scale, trains: m.gain is a scale, trains
};
Found find(const std::string& nodes) {
  const TempDir f;
  const Imported m = import_model(save(f, model(nodes)));
  const LowRankPairs p = find_low_rank_pairs(m.graph);
  const auto at = [&](const char* name) { return static_cast<size_t>(m.graph.find(name)); };
  CHECK(!p.factor[at("m.W")]);
  CHECK(p.factor[at("m.first")] == p.factor[at("m.second")]);
  CHECK(value(m.graph, "m.first").kind == SourceKind::parameter);
  return {p.factor[at("m.first")] != 0, p.scale[at("m.gain")] != 0,
          value(m.graph, "m.gain").kind == SourceKind::parameter};
}

}  // namespace

TEST_CASE("a scalar in an adapter of low rank is a constant, wherever it multiplies", "[low_rank]") {
  const std::string base = "w = MatMul (x, m_W) ", end = " y = Add (w, d)";
  for (const std::string& nodes : {
           base + "a = MatMul (x, m_first) b = MatMul (a, m_second) d = Mul (b, m_gain)" + end,
           base + "a = MatMul (x, m_first) b = Mul (m_gain, a) d = MatMul (b, m_second)" + end,
           base + "b = Mul (m_second, m_gain) a = MatMul (x, m_first) d = MatMul (a, b)" + end,
           base + "v = Add (w, m_bias) i = Identity (x) a = MatMul (i, m_first) b = MatMul (a, m_second) "
                  "d = Mul (b, m_gain) y = Add (d, v)",
       }) {
    INFO(nodes);
    const Found f = find(nodes);
    CHECK(f.factors);
    CHECK(f.scale);
    CHECK(!f.trains);
  }
}

TEST_CASE("products with an activation, another input or nothing beside them are no adapter", "[low_rank]") {
  const std::string base = "w = MatMul (x, m_W) ", end = " b = MatMul (r, m_second) d = Mul (b, m_gain) ";
  for (const std::string& nodes : {
           base + "a = MatMul (x, m_first) r = Relu (a)" + end + "y = Add (w, d)",
           base + "r = MatMul (x2, m_first)" + end + "y = Add (w, d)",
           base + "t = Tanh (w) r = MatMul (x, m_first)" + end + "y = Add (t, d)",
           base + "r = MatMul (x, m_first)" + end + "y = Mul (w, d)",
       }) {
    INFO(nodes);
    const Found f = find(nodes);
    CHECK(!f.factors);
    CHECK(!f.scale);
    CHECK(f.trains);
  }
}
