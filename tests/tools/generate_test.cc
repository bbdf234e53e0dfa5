// Text that language models write, against transformers' generate() (tests/data/generate/make_generate.py).
#include "run/evaluate/generate.h"

#include <catch2/catch_all.hpp>
#include <cmath>

#include "tests/importer/models.h"
#include "tests/support.h"
#include "tests/tools/verb_run.h"

using namespace amp;
using namespace amp::test;
using nlohmann::json;

namespace {

json golden() { return json::parse(std::ifstream(test_data("generate/golden.json"))); }

std::string small_gpt2(const TempDir& f) {
  must_run({"convert", test_data("generate"), "--out", f / "m.onnx"});
  return f / "m.onnx";
}

std::vector<json> texts(const std::vector<std::string>& words) {
  std::vector<json> out;
  std::istringstream lines(must_run(words).out);
  for (std::string line; std::getline(lines, line);) out.push_back(json::parse(line));
  return out;
}

}  // namespace

TEST_CASE("the likeliest tokens are those of transformers, to the end of the text") {
  const TempDir f;
  const json want = golden();
  std::vector<std::string> words = {"generate", small_gpt2(f), "--max_new_tokens", "40", "--json"};
  for (const json& t : want["texts"]) words.insert(words.end(), {"--prompt", t["prompt"].get<std::string>()});
  const std::vector<json> found = texts(words);
  REQUIRE(found.size() == want["texts"].size());
  size_t ended = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    CHECK(found[i]["ids"] == want["texts"][i]["ids"]);
    CHECK(found[i]["ended"] == (want["texts"][i]["ids"].back() == want["end"]));
    ended += found[i]["ended"].get<bool>();
  }
  CHECK(ended > 0);
  CHECK(ended < found.size());
}

TEST_CASE("drawn tokens are as frequent as transformers' temperature and top-k leave them") {
  const json want = golden();
  const auto logits = want["logits"].get<std::vector<float>>();
  const Sampling how{true, want["temperature"].get<double>(), want["top_k"].get<int64_t>()};
  constexpr int kDraws = 40000;
  std::vector<int> counts(logits.size());
  for (int i = 0; i < kDraws; ++i)
    ++counts[static_cast<size_t>(choose_token(logits, how, 7, 3, static_cast<uint64_t>(i)))];
  for (size_t t = 0; t < logits.size(); ++t) {
    const double p = want["probabilities"][t].get<double>();
    INFO("token " << t);
    if (p == 0) CHECK(counts[t] == 0);
    // five standard deviations of a binomial count
    CHECK(std::abs(counts[t] - kDraws * p) <= 5 * std::sqrt(kDraws * p * (1 - p)));
  }
  CHECK(choose_token(logits, {}, 7, 0, 0) == 2);
  CHECK(choose_token(logits, {true, 1, 1}, 7, 0, 0) == 2);
  CHECK_THROWS(choose_token(std::vector<float>{0, NAN}, {}, 7, 0, 0));
}

TEST_CASE("a seed writes the same text again, another one another") {
  const TempDir f;
  const std::string model = small_gpt2(f);
  const auto drawn = [&](const std::string& seed) {
    return texts({"generate", model, "--prompt", "q7", "--sample", "--temperature", "2", "--top_k", "100", "--seed",
                  seed, "--max_new_tokens", "12", "--json"})[0]["ids"];
  };
  CHECK(drawn("1") == drawn("1"));
  CHECK(drawn("1") != drawn("2"));
}

TEST_CASE("what cannot be written is refused by name") {
  const TempDir f;
  const std::string model = small_gpt2(f);
  const Said longer = run_verb({"generate", model, "--prompt", "the cat", "--max_new_tokens", "100"});
  CHECK(longer.id == "E_SEQ_LEN");
  CHECK(longer.fact.find("at most 64") != std::string::npos);
  CHECK(run_verb({"generate", model}).id == "E_USAGE");
  must_run({"create", "bert", "--model_head", "sequence_classification", "--out", f / "bert.onnx", "--model_config",
            R"({"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32})"});
  const Said bert = run_verb({"generate", f / "bert.onnx", "--prompt", "a", "--tokenizer", test_data("generate")});
  CHECK(bert.error);
  CHECK(run_verb({"generate", model, "--prompt", "a", "--top_k", "3", "--max_new_tokens", "1"})
            .err.find("no effect without --sample") != std::string::npos);
}
