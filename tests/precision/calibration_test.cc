// Decisions of calibration from measured ranges: nodes that exceed fp16, the loss scale, groups of nodes by error.
// Ranges are given by the tests; tests/trainer/calibrate_test.cc measures them.
#include "precision/calibration.h"

#include <catch2/catch_all.hpp>
#include <cmath>

#include "text_graph.h"

using namespace amp;
using namespace amp::test;
using Catch::Matchers::ContainsSubstring;

namespace {

const char* const kChain = R"(
    input x
    param W 4 4
    a = MatMul(x, W)
    b = Relu(a)
    c = MatMul(b, W)
    d = MatMul(c, W)
    output d)";

ValueRange around(double magnitude) {
  std::vector<float> x;
  for (int i = 0; i < 64; ++i) x.push_back(static_cast<float>(magnitude * (1 - i / 128.0)));
  ValueRange r;
  r.add(x.data(), static_cast<int64_t>(x.size()));
  return r;
}

struct Case {
  SourceGraph g = text_graph(kChain);
  std::vector<NodeRanges> nodes;
  std::vector<ValueRange> inputs;
  Case() : nodes(g.nodes.size()), inputs(g.values.size()) {
    for (NodeRanges& n : nodes) n = {around(1), around(0x1p-10)};
  }
  Calibration judge(DType low = DType::f16) const {
    return amp::summarize_ranges(g, decide(g, preset("O1"), low), nodes, inputs);
  }
  std::string names(const std::vector<PlanGroup>& groups) const {
    std::string out;
    for (const PlanGroup& p : groups) {
      for (const int n : p.nodes) out += g.nodes[static_cast<size_t>(n)].name;
    }
    return out;
  }
};

}  // namespace

TEST_CASE("what reaches beyond fp16 is fp32, and so is what reads it") {
  Case c;
  c.nodes[2].value = around(1e5);
  const Calibration found = c.judge();
  CHECK(c.names(found.overflow) == "cd");
  CHECK_THAT(found.overflow[0].why, ContainsSubstring("what it computes reaches 1e+05, beyond fp16's 65504"));
  CHECK_THAT(found.overflow[1].why, ContainsSubstring("it reads 'c', which reaches 1e+05"));
  CHECK(c.names(found.ranked).size() == 2);
  CHECK(c.judge(DType::bf16).overflow.empty());
  c.nodes[2].value = around(40000);  // times the headroom, 2, it exceeds 65504
  CHECK(c.names(c.judge().overflow) == "cd");
  c.nodes[2].value = around(30000);
  CHECK(c.judge().overflow.empty());
  c.inputs[static_cast<size_t>(c.g.find("x"))] = around(1e6);
  CHECK(c.names(c.judge().overflow) == "a");
}

TEST_CASE("the loss scale brings the gradients up to the limit, not beyond") {
  Case c;
  // 65504 / 2 / 2^-10 = 3.35e7: the scale is the largest power of two below this and below the ceiling of 2^24.
  CHECK(c.judge().loss_scale == 0x1p24);
  for (NodeRanges& n : c.nodes) n.gradient = around(1);
  CHECK(c.judge().loss_scale == 0x1p14);
  for (NodeRanges& n : c.nodes) n.gradient = around(1e6);
  CHECK(c.judge().loss_scale == 1);
}

TEST_CASE("one outlying gradient is left fp32 rather than drowning the others") {
  Case c;
  for (NodeRanges& n : c.nodes) n.gradient = around(0x1p-40);
  c.nodes[3].gradient = around(1);
  const Calibration found = c.judge();
  CHECK(c.names(found.overflow) == "d");
  CHECK_THAT(found.overflow[0].why, ContainsSubstring("other nodes' gradients would vanish"));
  CHECK(found.loss_scale == 0x1p24);
}

TEST_CASE("groups are ranked by the error they would make, and a rule says why") {
  Case c;
  c.nodes[0].gradient = around(0x1p-49);  // counted in the group of 2^-10; it is 0 even at the largest scale
  const Calibration found = c.judge();
  REQUIRE(c.names(found.ranked).size() == 4);
  CHECK(c.names(found.ranked)[0] == 'a');
  CHECK(found.ranked[0].error > 0.1);
  CHECK_THAT(found.ranked[0].why, ContainsSubstring("its gradients would be off by"));
  CHECK(found.ranked[1].error < 1e-3);
  const std::vector<PrecisionRule> rules = rules_for(c.g, found.ranked[0]);
  REQUIRE(rules.size() == 1);
  CHECK(rules[0].node == "a");
  CHECK(rules[0].precision == Precision::fp32);
  CHECK(rules[0].why == found.ranked[0].why);
}
