// Plan files: every node with its reason is recorded, a plan read as an op list gives the same plan, and plans for
// other graphs are refused.
#include "precision/plan_io.h"

#include <catch2/catch_all.hpp>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "text_graph.h"

using namespace amp;
using namespace amp::test;
using Catch::Matchers::ContainsSubstring;

namespace {

const char* const kMlp = R"(
    input x
    param W 4 4
    const n int64 = 2
    a = MatMul(x, W)
    b = Tanh(a)
    c = MatMul(b, W)
    d = Softmax{axis=-1}(c)
    s = Shape(d)
    output d)";

}  // namespace

TEST_CASE("the plan file records every node and its reason") {
  const SourceGraph g = text_graph(kMlp);
  const PrecisionPlan plan = decide(g, preset("O1"), DType::bf16);
  const auto json = nlohmann::json::parse(plan_to_json(g, plan));
  CHECK(json["version"] == 1);
  CHECK(json["dtype"] == "bf16");
  CHECK(json["graph"] == graph_fingerprint(g));
  REQUIRE(json["nodes"].size() == 5);
  const nlohmann::json tanh = {{"name", "b"},
                               {"op", "Tanh"},
                               {"compute", "bf16"},
                               {"class", "infer"},
                               {"rule", json["nodes"][1]["rule"]},
                               {"pass", "paint: between allow nodes"}};
  CHECK(json["nodes"][1] == tanh);
  CHECK_THAT(json["nodes"][1]["rule"].get<std::string>(), ContainsSubstring("(MatMul)"));
  CHECK(json["nodes"][4]["class"] == "not-float");
}

TEST_CASE("a plan file read back as an op-list gives the same plan and the same bytes") {
  const SourceGraph g = text_graph(kMlp);
  const std::string start = GENERATE(R"({"version": 1})", R"({"version": 1, "extends": "pytorch"})",
                                     R"({"version": 1, "extends": "O2", "deny": {"add": ["Resize"]},
                                         "rules": [{"node": "b", "precision": "fp32", "why": "test"}],
                                         "loss_scale": {"mode": "static", "init": 64, "max": "inf"}})");
  const PrecisionPlan plan = decide(g, parse_op_list(start, "my.json"), DType::f16);
  const std::string text = plan_to_json(g, plan);
  const OpList list = parse_op_list(text, "precision_plan.json");
  CHECK(list.dtype == DType::f16);
  CHECK(list.loss_scale == plan.list.loss_scale);
  CHECK(list.propagation == plan.list.propagation);
  const PrecisionPlan again = decide(g, list, *list.dtype);
  CHECK(again.warnings == plan.warnings);
  for (size_t i = 0; i < g.nodes.size(); ++i) CHECK(again.nodes[i].compute == plan.nodes[i].compute);
  // From the second round on, the list's name is the source of every class.
  const std::string second = plan_to_json(g, again);
  CHECK(plan_to_json(g, decide(g, parse_op_list(second, "precision_plan.json"), DType::f16)) == second);
}

TEST_CASE("a plan for another graph is refused; a changed record is a warning") {
  const SourceGraph g = text_graph(kMlp);
  std::string text = plan_to_json(g, decide(g, preset("O1"), DType::f16));
  std::string other = kMlp;
  other.replace(other.find("Tanh"), 4, "Relu");
  try {
    decide(text_graph(other), parse_op_list(text, "p.json"), DType::f16);
    FAIL("accepted");
  } catch (const Error& e) {
    CHECK(e.exit() == Exit::usage);
    CHECK(e.id() == "E_PLAN_GRAPH");
  }
  text.replace(text.find("\"compute\": \"fp16\""), 17, "\"compute\": \"fp32\"");
  const PrecisionPlan plan = decide(g, parse_op_list(text, "p.json"), DType::f16);
  REQUIRE(plan.warnings.size() == 1);
  CHECK_THAT(plan.warnings[0], ContainsSubstring("records fp32 for node 'a'"));
}

TEST_CASE("the explained table has a line a node, the counts and the warnings") {
  const SourceGraph g = text_graph(kMlp);
  const OpList list = parse_op_list(R"({"version": 1, "rules": [{"node": "z", "precision": "low"}]})", "my.json");
  const std::string text = explain_plan(g, decide(g, list, DType::f16));
  CHECK_THAT(text, ContainsSubstring("nodes: fp16 3 fp32 1\n"));
  CHECK_THAT(text, ContainsSubstring("warning: rule 1 of my.json matches no node"));
  CHECK_THAT(text, ContainsSubstring("deny list of O1"));
  CHECK_THAT(text, !ContainsSubstring("Shape"));
  CHECK_THAT(explain_plan(g, decide(g, list, DType::f16), true), ContainsSubstring("Shape"));
}
