// Batches that are shorter than the batch size that a model's graph contains.
#include "graph/fixed_rows.h"

#include <catch2/catch_test_macros.hpp>

#include "tests/graph/source_net.h"

using namespace amp;
using namespace amp::test;

TEST_CASE("outputs keep only the rows of a short batch, on whatever axis these are") {
  SourceNet net;
  const int x = net.input("x");
  net.g.values[static_cast<size_t>(x)].rank_known = true;
  net.g.values[static_cast<size_t>(x)].dims = {{-1, "batch"}, {3, ""}};
  set_fixed_rows(net.g, 4);
  const int rows_first = net.node("Relu", {x});
  const int rows_second = net.node("Transpose", {x}, {{"perm", std::vector<int64_t>{1, 0}}});
  const auto dims_of = [&](int64_t rows) {
    const BoundNet b(net, {{"x", {rows, 3}}}, {rows_first, rows_second});
    std::vector<Dims> out;
    for (const auto& o : b.graph.outputs) out.push_back(b.graph.value(o.value).dims);
    return out;
  };
  CHECK(dims_of(2) == std::vector<Dims>{{2, 3}, {3, 2}});
  CHECK(dims_of(4) == std::vector<Dims>{{4, 3}, {3, 4}});
}
