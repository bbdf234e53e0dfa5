// Views of a precision plan: the self-contained HTML page, the DOT file, and the comparison of two plans.
#include "precision/plan_view.h"

#include <catch2/catch_all.hpp>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "precision/plan_diff.h"
#include "precision/plan_io.h"
#include "text_graph.h"

using namespace amp;
using namespace amp::test;
using Catch::Matchers::ContainsSubstring;

namespace {

const char* const kMlp = R"(
    input x
    param W 4 4
    a = MatMul(x, W)
    b = Tanh(a)
    c = MatMul(b, W)
    d = Softmax{axis=-1}(c)
    e = Exp(d)
    s = Shape(d)
    output d)";

std::string json_of(const SourceGraph& g, const std::string& list) {
  return plan_to_json(g, decide(g, parse_op_list(list, "my.json"), DType::f16));
}

// Returns the text of an element as a browser reads it: up to the first "</".
nlohmann::json element(const std::string& page, const std::string& id) {
  const std::string open = "<script type=\"application/json\" id=\"" + id + "\">";
  const size_t begin = page.find(open);
  REQUIRE(begin != std::string::npos);
  const size_t from = begin + open.size();
  return nlohmann::json::parse(page.substr(from, page.find("</", from) - from));
}

}  // namespace

TEST_CASE("the page holds the whole plan and needs nothing else") {
  SourceGraph g = text_graph(kMlp);
  const std::string hostile = "</script><script>alert(1)</script><!-- @EDGES@ \"";
  g.nodes[1].name = hostile;
  const std::string json = json_of(g, R"({"version": 1})");
  const std::string page = plan_to_html(g, json);
  const nlohmann::json plan = element(page, "plan");
  CHECK(plan == nlohmann::json::parse(json));
  CHECK(plan["nodes"][1]["name"] == hostile);
  CHECK(element(page, "edges") == nlohmann::json::parse("[[0,1],[1,2],[2,3],[3,4],[3,5]]"));
  // The page fetches nothing.
  for (const char* mark : {"http://", "https://", "src=", "@import", "url(", "<link"})
    CHECK(page.find(mark) == std::string::npos);
}

TEST_CASE("the DOT file colours nodes and marks borders") {
  SourceGraph g = text_graph(kMlp);
  g.nodes[1].name = "quote\" and \\";
  const std::string dot = plan_to_dot(g, decide(g, preset("O1"), DType::f16));
  CHECK_THAT(dot, ContainsSubstring("n0 [label=\"MatMul, fp16\", fillcolor=\"#b5e0c7\""));
  CHECK_THAT(dot, ContainsSubstring("n3 [label=\"Softmax, fp32\", fillcolor=\"#f5cfa8\""));
  CHECK_THAT(dot, ContainsSubstring("n5 [label=\"Shape\", fillcolor=\"#dfe2e6\""));
  CHECK_THAT(dot, ContainsSubstring("n0 -> n1;") && ContainsSubstring("n2 -> n3 [color=red, style=dashed];"));
  CHECK_THAT(dot, ContainsSubstring(R"(quote\" and \\)"));
  CHECK_THAT(dot, ContainsSubstring("n3 -> n5;"));
}

TEST_CASE("two plans compared: types, classes, rules, scale, nodes of one only") {
  const SourceGraph g = text_graph(kMlp);
  const std::string a = json_of(g, R"({"version": 1})");
  CHECK(diff_plans(a, "a.json", a, "b.json") == "the plans are the same\n");
  const std::string b = json_of(g, R"({"version": 1, "allow": {"add": ["Softmax"]}, "loss_scale": {"init": 128},
      "rules": [{"node": "c", "precision": "fp32", "why": "because"}]})");
  const std::string diff = diff_plans(a, "a.json", b, "b.json");
  CHECK_THAT(diff, ContainsSubstring("operator Softmax: deny -> allow\n"));
  CHECK_THAT(diff, ContainsSubstring("loss_scale.init: 65536.0 -> 128.0\n"));
  CHECK_THAT(diff, ContainsSubstring("+ rule {\"node\":\"c\",\"precision\":\"fp32\",\"why\":\"because\"}\n"));
  CHECK_THAT(diff,
             ContainsSubstring(
                 "node 'c' (MatMul): fp16 (class, allow list of O1) -> fp32 (rule, rule 1 of my.json: because)\n"));
  CHECK_THAT(diff, ContainsSubstring("node 'd' (Softmax): fp32"));
  CHECK(diff.find("node 'a'") == std::string::npos);
  const std::string back = diff_plans(b, "b.json", a, "a.json");
  CHECK_THAT(back, ContainsSubstring("- rule {\"node\":\"c\""));

  const SourceGraph other = text_graph(R"(
    input x
    param W 4 4
    a = MatMul(x, W)
    z = Tanh(a)
    output z)");
  const std::string c = json_of(other, R"({"version": 1})");
  const std::string across = diff_plans(a, "a.json", c, "c.json");
  CHECK_THAT(across, ContainsSubstring("made for different graphs"));
  CHECK_THAT(across, ContainsSubstring("- node 'b' (Tanh): fp16\n") && ContainsSubstring("+ node 'z' (Tanh): fp32\n"));
}

TEST_CASE("what is no plan is refused by name") {
  const SourceGraph g = text_graph(kMlp);
  const std::string plan = json_of(g, R"({"version": 1})");
  CHECK_THROWS_WITH(diff_plans(plan, "a.json", "{", "b.json"), ContainsSubstring("b.json"));
  CHECK_THROWS_WITH(diff_plans(R"({"version": 1})", "a.json", plan, "b.json"), ContainsSubstring("it has no nodes"));
}
