// Parameters that an exporter stored once per row of a batch of 8: which are recognized, and which tensors must not be
// mistaken for one.
#include "graph/folded_rows.h"

#include <catch2/catch_all.hpp>

#include "graph/fixed_rows.h"
#include "tests/graph/source_net.h"

using namespace amp;
using amp::test::BoundNet;
using amp::test::SourceNet;

namespace {

// Returns `copies` copies of a random tensor along the axis.
HostTensor copies(Dims one, int axis, int64_t copies) {
  std::vector<float> v;
  for (int64_t i = 0; i < numel(one); ++i) v.push_back(0.3f * static_cast<float>(i * i) - 1.1f);
  const HostTensor t = HostTensor::of<float>(one, v);
  return repeated(t, axis, one[static_cast<size_t>(axis)], copies);
}

struct FixedNet : SourceNet {
  int x;
  explicit FixedNet(Dims dims) : x(input("x")) {
    SourceValue& v = g.values[static_cast<size_t>(x)];
    v.rank_known = true;
    for (const int64_t d : dims) v.dims.push_back({d, ""});
  }
  int param(const std::string& name, HostTensor data) {
    const int v = SourceNet::param(name, {1});
    g.values[static_cast<size_t>(v)].data = std::move(data);
    return v;
  }
  int fill(const std::string& name, Dims dims, float value) { return SourceNet::param(name, std::move(dims), value); }
  std::vector<FoldedRows> folded(int output) {
    set_fixed_rows(g, 8);
    return find_folded_rows(g, {output}, cpu_evaluator());
  }
  int64_t rows_of(int v) const { return g.value(v).data.dims()[0]; }
};

}  // namespace

TEST_CASE("a parameter is one row where its copies follow the batch", "[folded_rows]") {
  SECTION("concatenated") {
    FixedNet n({8, 4});
    const int q = n.param("q", copies({1, 3}, 0, 8));
    const auto f = n.folded(n.node("Concat", {n.x, q}, {{"axis", int64_t{1}}}));
    REQUIRE(f.size() == 1);
    CHECK(f[0].value == q);
    CHECK(f[0].axis == 0);
    CHECK(f[0].extent == 1);
    CHECK(f[0].repeats == 8);
  }
  SECTION("added, all zeros: the graph shows it") {
    FixedNet n({8, 4});
    const int q = n.fill("q", {8, 4}, 0);
    const auto f = n.folded(n.node("Add", {n.x, q}));
    REQUIRE(f.size() == 1);
    CHECK(f[0].axis == 0);
  }
  SECTION("along the second axis, the sequence first") {
    FixedNet n({8, 5, 4});
    const int t = n.node("Transpose", {n.x}, {{"perm", std::vector<int64_t>{1, 0, 2}}});
    const int q = n.param("q", copies({3, 1, 4}, 1, 8));
    const auto f = n.folded(n.node("Concat", {t, q}, {{"axis", int64_t{0}}}));
    REQUIRE(f.size() == 1);
    CHECK(f[0].axis == 1);
  }
  SECTION("several slices a row, reshaped before they meet the batch") {
    FixedNet n({8, 5, 4});
    const int q = n.param("q", copies({3, 4}, 0, 8));
    const int r = n.node("Reshape", {q, n.ints("shape", {8, 3, 4})});
    const auto f = n.folded(n.node("Concat", {n.x, r}, {{"axis", int64_t{1}}}));
    REQUIRE(f.size() == 1);
    CHECK(f[0].extent == 3);
  }
  SECTION("a batched product's weight") {
    FixedNet n({8, 5, 4});
    const int w = n.param("w", copies({1, 4, 6}, 0, 8));
    CHECK(n.folded(n.node("MatMul", {n.x, w})).size() == 1);
  }
  SECTION("behind a Reshape to the batch size, beside another one") {
    FixedNet n({8, 20});
    const int p = n.param("p", copies({1, 5, 4}, 0, 8)), q = n.fill("q", {8, 1, 4}, 0);
    const int r = n.node("Reshape", {n.x, n.ints("shape", {8, 5, 4})});
    const int y = n.node("Concat", {n.node("Add", {r, p}), q}, {{"axis", int64_t{1}}});
    CHECK(n.folded(y).size() == 2);
  }
  SECTION("behind rows that are taken one by one, where values show that they are copies") {
    FixedNet n({8, 4});
    std::vector<int> rows;
    for (int64_t i = 0; i < 8; ++i) rows.push_back(n.node("Gather", {n.x, n.ints(cat("i", i), {i})}));
    const int h = n.node("Concat", rows, {{"axis", int64_t{0}}});
    const int q = n.param("q", copies({1, 3}, 0, 8)), zeros = n.fill("zeros", {8, 3}, 0);
    const auto f = n.folded(n.node("Concat", {h, q, zeros}, {{"axis", int64_t{1}}}));
    REQUIRE(f.size() == 1);
    CHECK(f[0].value == q);
  }
}

TEST_CASE("what is as large as a batch by chance is no copy of a row", "[folded_rows]") {
  SECTION("a norm's fresh scale, shift and statistics") {
    FixedNet n({8, 8, 4, 4});
    const int y = n.node("BatchNormalization", {n.x, n.fill("scale", {8}, 1), n.fill("bias", {8}, 0),
                                                n.constant("mean", HostTensor::zeros(DType::f32, {8})),
                                                n.constant("var", HostTensor::zeros(DType::f32, {8}))});
    CHECK(n.folded(n.node("Add", {y, n.fill("shift", {8, 1, 1}, 0)})).empty());
  }
  SECTION("a layer norm's, and zeros of a product") {
    FixedNet n({8, 8});
    const int y = n.node("LayerNormalization", {n.x, n.fill("scale", {8}, 1), n.fill("bias", {8}, 0)});
    CHECK(n.folded(n.node("MatMul", {y, n.fill("w", {8, 8}, 0)})).empty());
  }
  SECTION("fresh positions of a sequence of 8") {
    FixedNet n({8, 8, 4});
    CHECK(n.folded(n.node("Add", {n.x, n.fill("positions", {8, 4}, 0)})).empty());
    FixedNet table({8, 8, 4});
    CHECK(table.folded(table.node("Add", {table.x, table.param("positions", copies({1, 4}, 0, 8))})).empty());
  }
  SECTION("parameters that meet each other only") {
    FixedNet n({8, 4});
    const int c = n.node("Concat", {n.fill("a", {8, 2}, 0), n.fill("b", {8, 2}, 0)}, {{"axis", int64_t{1}}});
    const int sum = n.node("ReduceSum", {c}, {{"keepdims", int64_t{0}}});
    CHECK(n.folded(n.node("Mul", {n.x, sum})).empty());
  }
  SECTION("rows that differ") {
    FixedNet n({8, 4});
    CHECK(n.folded(n.node("Add", {n.x, n.param("q", copies({8, 4}, 0, 1))})).empty());
  }
  SECTION("any batch size goes") {
    FixedNet n({8, 4});
    CHECK(find_folded_rows(n.g, {n.node("Add", {n.x, n.fill("q", {8, 4}, 0)})}, cpu_evaluator()).empty());
  }
}

TEST_CASE("copies of a row are one parameter, that of an equal one in the file", "[folded_rows]") {
  FixedNet n({8, 4});
  const int q = n.param("q", copies({1, 3}, 0, 8)), again = n.param("again", copies({1, 3}, 0, 8));
  n.g.values[static_cast<size_t>(again)].tied_to = q;
  const int y = n.node("Concat", {n.x, q, again}, {{"axis", int64_t{1}}});
  CHECK(tie_folded_rows(n.g, n.folded(y)) == std::vector<std::string>{"q"});
  const int row = n.g.find("q.row");
  REQUIRE(row >= 0);
  CHECK(n.rows_of(row) == 1);
  CHECK(n.g.value(row).trainable);
  for (const int v : {q, again}) {
    CHECK(n.g.value(v).tied_to == row);
    CHECK(n.g.value(v).tied_axis == 0);
  }
  const BoundNet b(n, {{"x", {5, 4}}}, {y});  // 5 rows: inputs are padded to 8 rows, outputs are cut to 5
  CHECK(b.params.size() == 1);
  CHECK(b.graph.value(b.graph.outputs[0].value).dims == Dims{5, 10});

  FixedNet m({8, 4});
  const int whole = m.param("q", copies({4}, 0, 1)), stored = m.param("stored", copies({1, 4}, 0, 8));
  const int z = m.node("Concat", {m.node("Add", {m.x, whole}), stored}, {{"axis", int64_t{1}}});
  tie_folded_rows(m.g, m.folded(z));
  CHECK(m.g.value(stored).tied_to == whole);
  CHECK(BoundNet(m, {{"x", {8, 4}}}, {z}).params.size() == 1);
}

TEST_CASE("a row that is the same at every place of a sequence is one place", "[folded_rows]") {
  FixedNet n({8, 5, 4});
  const int q = n.param("q", repeated(copies({1, 1, 4}, 0, 8), 1, 1, 5)), y = n.node("Add", {n.x, q});
  tie_folded_rows(n.g, n.folded(y));
  const int row = n.g.find("q.row");
  REQUIRE(row >= 0);
  CHECK(n.g.value(row).data.dims() == Dims{1, 1, 4});
  const BoundNet b(n, {{"x", {8, 5, 4}}}, {y});
  CHECK(b.graph.value(b.graph.outputs[0].value).dims == Dims{8, 5, 4});
}

TEST_CASE("copies along an axis", "[folded_rows]") {
  const HostTensor two = HostTensor::of<float>({2, 4}, {1, 2, 1, 2, 3, 4, 3, 4});
  CHECK(holds_copies(two, 1, 2));
  CHECK_FALSE(holds_copies(two, 1, 4));
  CHECK_FALSE(holds_copies(two, 0, 2));
  const HostTensor one = repeated(two, 1, 2, 1);
  CHECK(one.to_doubles() == std::vector<double>{1, 2, 3, 4});
  CHECK(repeated(one, 1, 2, 2).to_doubles() == two.to_doubles());
}
