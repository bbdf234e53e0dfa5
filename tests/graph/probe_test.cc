// The dry run of a model's training: which gradients arrive, and for which shapes it runs.
#include "graph/probe.h"

#include <catch2/catch_test_macros.hpp>

#include "tests/graph/source_net.h"

using namespace amp;
using namespace amp::test;

TEST_CASE("a gradient reaches parameters and nodes on a path to a floating-point output, and no others") {
  SourceNet net;
  const int x = net.input("x");
  const int product = net.node("MatMul", {x, net.param("trained", {3, 3})});
  const int result = net.node("Relu", {product});
  const int other = net.node("MatMul", {x, net.param("counted", {3, 3})});
  const int numbers = net.node("Cast", {other}, {{"to", int64_t{7}}});  // type 7: int64
  const ParamTable params(net.g);
  BindOptions o;
  o.input_dims = {{"x", {2, 3}}};
  o.outputs = {result, numbers};
  const Probe p = probe(net.g, params, o, std::vector<bool>(params.size(), true), cpu_evaluator());
  CHECK(p.forward.empty());
  CHECK(p.backward.empty());
  CHECK(p.reached == std::vector<bool>{true, false});
  CHECK(p.gradient == std::vector<bool>{true, true, false, false});
  CHECK(p.dims[static_cast<size_t>(result)] == Dims{2, 3});
}

TEST_CASE("the dry run takes the sizes of symbols from inputs and from empty caches") {
  SourceNet net;
  const auto sized = [&](int v, std::vector<Dim> dims) {
    net.g.values[static_cast<size_t>(v)].rank_known = true;
    net.g.values[static_cast<size_t>(v)].dims = std::move(dims);
    return v;
  };
  const int ids = sized(net.input("ids", DType::i64), {{-1, "batch"}, {-1, "length"}});
  const int mask = sized(net.input("mask", DType::i64), {{-1, "batch"}, {-1, "past + length"}});
  sized(net.constant("cache", HostTensor::of<float>({1, 0, 4}, {})), {{-1, "batch"}, {-1, "past"}, {4, ""}});
  const int sum = net.node("Add", {ids, mask});
  const auto dims = probe_dims(net.g, {sum}, 2, 7);
  CHECK(dims.at("ids") == Dims{2, 7});
  CHECK(dims.at("mask") == Dims{2, 7});
}
