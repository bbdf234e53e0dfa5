// The syntax of losses: text, JSON, files, and errors.
#include "trainer/losses/loss_text.h"

#include <catch2/catch_all.hpp>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "tests/support.h"

using namespace amp;

namespace {
std::string refusal(const std::string& text) {
  try {
    parse_losses({text});
  } catch (const Error& e) {
    CHECK(e.exit() == Exit::usage);
    return e.what();
  }
  return "accepted";
}
bool mentions(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }
}  // namespace

TEST_CASE("a loss in words, with parameters, several of them", "[losses]") {
  const auto l = parse_losses(
      {"ce,label_smoothing=0.1,class_weights=1:2.5,mse,output=y,weight=0.5", "huber,delta=2,label=target"});
  REQUIRE(l.size() == 3);
  CHECK(l[0].kind == "cross_entropy");
  CHECK(l[0].number("label_smoothing") == 0.1);
  CHECK(l[0].list("class_weights") == std::vector<double>{1, 2.5});
  CHECK(l[0].label_name() == "label");
  CHECK(l[1].kind == "mse");
  CHECK(l[1].outputs == std::vector<std::string>{"y"});
  CHECK(l[1].weight == 0.5);
  CHECK(l[2].number("delta") == 2);
  CHECK(l[2].label_name() == "target");
  CHECK(parse_losses({"triplet"})[0].label_name().empty());
  CHECK(parse_losses({"output"})[0].kind == "model");
}

TEST_CASE("a loss of a gradient names what it is with respect to", "[losses]") {
  const auto l = parse_losses({"ce,gradient_penalty(x)=10,target=0", R"({"kind": "gradient_penalty", "input": "x"})"});
  REQUIRE(l.size() == 3);
  CHECK(l[1].kind == "gradient_penalty");
  CHECK(l[1].input == "x");
  CHECK(l[1].weight == 10);
  CHECK(l[1].number("target") == 0);
  CHECK(l[2].input == "x");
  CHECK(l[2].weight == 1);
  for (const LossSpec& s : l) CHECK(loss_json(parse_losses({loss_json(s)})[0]) == loss_json(s));
  CHECK(mentions(refusal("cross_entropy(x)=10"), "'input'"));
  CHECK(mentions(refusal("gradient_penalty(x)=much"), "\"much\" is not a number"));
}

TEST_CASE("losses in JSON, inline and in a file", "[losses]") {
  const std::string text =
      R"([{"kind": "mse", "output": "y", "weight": 0.5, "label": "target"}, "l1", {"kind": "qa_span", "outputs": ["s", "e"]}])";
  const test::TempDir folder;
  const std::string path = folder / "losses.json";
  std::ofstream(path) << text;
  for (const std::string& from : {text, path}) {
    const auto l = parse_losses({from});
    REQUIRE(l.size() == 3);
    CHECK(l[0].weight == 0.5);
    CHECK(l[0].label_name() == "target");
    CHECK(l[1].kind == "l1");
    CHECK(l[2].outputs == std::vector<std::string>{"s", "e"});
    for (const LossSpec& s : l) CHECK(loss_json(parse_losses({loss_json(s)})[0]) == loss_json(s));
  }
  CHECK(parse_losses({R"({"kind": "bce", "pos_weight": 3})"})[0].list("pos_weight") == std::vector<double>{3});
}

TEST_CASE("the key of a run's losses differs when their graph does", "[losses]") {
  const auto key = [](const std::string& text) {
    Losses l;
    l.parts = parse_losses({text});
    return l.key();
  };
  CHECK(key("huber") == key("huber,delta=1"));
  CHECK(key("huber") != key("huber,delta=2"));
  CHECK(key("mse,output=a") != key("mse,output=b"));
  CHECK(key("bce,pos_weight=1:2") != key("ce,class_weights=1:2"));
  CHECK(key("cosine") != key("cosine,margin=0.5"));
}

TEST_CASE("what is wrong with a loss is said", "[losses]") {
  CHECK(mentions(refusal("cross_entrpy"), "did you mean 'cross_entropy'?"));
  CHECK(mentions(refusal("mse,delta=1"), "the loss mse has no parameter 'delta'"));
  CHECK(mentions(refusal("huber,dleta=1"), "did you mean 'delta'?"));
  CHECK(mentions(refusal("weight=2"), "precedes the first loss"));
  CHECK(mentions(refusal("mse,weight=1,weight=2"), "twice"));
  CHECK(mentions(refusal("mse,weight=-1"), "of at least 0"));
  CHECK(mentions(refusal("mse,weight=x"), "is not a number"));
  CHECK(mentions(refusal("ce,label_smoothing=1"), "below 1"));
  CHECK(mentions(refusal("ce,ignore_index=0.5"), "not a whole number"));
  CHECK(mentions(refusal("ce,class_weights=0:0"), "above 0"));
  CHECK(mentions(refusal("[]"), "no loss in it"));
  CHECK(mentions(refusal("[{\"kind\": \"mse\""), "not valid JSON"));
  CHECK(mentions(refusal("[{\"output\": \"y\"}]"), "without \"kind\""));
  CHECK(mentions(refusal("[3]"), "a loss is an object"));
  CHECK(mentions(refusal("/nowhere/losses.json"), "/nowhere/losses.json"));
}
