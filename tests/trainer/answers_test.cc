// Answers against SQuAD's evaluation script and the Jaccard score of Tweet Sentiment Extraction
// (tests/data/trainer/answers.json, made by tests/data/data/make_questions_golden.py).
#include "trainer/tasks/answers.h"

#include <catch2/catch_all.hpp>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/support.h"

using namespace amp;

TEST_CASE("answers are judged as SQuAD's script does") {
  std::ifstream in(test::test_data("trainer/answers.json"));
  const auto golden = nlohmann::json::parse(in);
  for (const auto& g : golden["normal"]) CHECK(normalize_answer(g[0].get<std::string>()) == g[1].get<std::string>());
  REQUIRE(golden["f1"].size() == 256);
  for (const auto& g : golden["f1"]) {
    INFO(g.dump());
    CHECK(answer_f1(g[0].get<std::string>(), g[1].get<std::string>()) ==
          Catch::Approx(g[2].get<double>()).epsilon(1e-12));
  }
  REQUIRE(golden["jaccard"].size() == 256);
  for (const auto& g : golden["jaccard"]) {
    INFO(g.dump());
    CHECK(answer_jaccard(g[0].get<std::string>(), g[1].get<std::string>()) == g[2].get<double>());
  }
}

TEST_CASE("the best span of all windows of a question counts") {
  AnswerKey key;
  key.passages = {"one two three four"};
  key.questions = {{"q", "?", 0, {{"two three", 4}, {"four", 14}}}, {"r", "?", 0, {{"one", 0}}}};
  key.windows = {{0, 2, {{0, 3}, {4, 7}, {8, 13}}}, {0, 2, {{8, 13}, {14, 18}}}, {1, 2, {{0, 3}, {4, 7}}}};
  // Tokens 0 and 1 belong to the question, and the last one is [SEP]. They cannot be part of an answer.
  const std::vector<float> start = {9, 0, 0, 2, 0, 9, 0, 0, 0, 1, 0, 0, 0, 0, 3, 2, 0, 0};
  const std::vector<float> end = {9, 0, 0, 0, 2, 9, 0, 0, 1, 1, 0, 0, 0, 0, 0, 2, 0, 0};
  AnswerScores one(key);
  one.add(start, end, std::vector<int64_t>{0, 1, 2});
  CHECK(one.exact_match() == 0.5);  // "two three" (4) beats "four" (2); "one two" is not "one"
  CHECK(one.f1() == Catch::Approx((1 + 2.0 / 3) / 2));
  CHECK(one.jaccard() == Catch::Approx((1 + 1.0 / 2) / 2));
  AnswerScores other(key);  // adds the windows in another order, in parts
  other.add(std::span(start).subspan(6, 6), std::span(end).subspan(6, 6), std::vector<int64_t>{1});
  other.add(std::span(start).subspan(0, 6), std::span(end).subspan(0, 6), std::vector<int64_t>{0});
  CHECK(other.exact_match() == 1);
  CHECK(AnswerScores(key).f1() == 0);
}

namespace {
// The questions of make_answers2_golden.py. Its positions are code points; the only character above one byte is "É".
struct Questions {
  AnswerKey key;
  std::vector<float> start, end;
  std::vector<int64_t> samples;

  explicit Questions(const nlohmann::json& golden) {
    for (const auto& e : golden["examples"]) {
      Question q{e["id"].get<std::string>(), "?", key.passages.size(), {}, 0, 0};
      for (const auto& a : e["answers"])
        q.answers.push_back({a["text"].get<std::string>(), a["answer_start"].get<int64_t>()});
      key.passages.push_back(e["context"].get<std::string>());
      key.questions.push_back(q);
    }
    for (size_t i = 0; i < golden["features"].size(); ++i) {
      const auto& f = golden["features"][i];
      AnswerKey::Window w{std::stoul(f["example_id"].get<std::string>()), 4, {}, 0};
      for (const auto& o : f["offset_mapping"]) {
        if (!o.is_null()) w.parts.emplace_back(o[0].get<int32_t>(), o[1].get<int32_t>());
      }
      key.windows.push_back(w);
      for (const auto& x : golden["start"][i]) start.push_back(x.get<float>());
      for (const auto& x : golden["end"][i]) end.push_back(x.get<float>());
      samples.push_back(static_cast<int64_t>(i));
    }
  }
};
}  // namespace

TEST_CASE("n-best answers are run_qa's, with and without questions that have none") {
  std::ifstream in(test::test_data("trainer/answers2.json"));
  const auto golden = nlohmann::json::parse(in);
  const Questions q(golden);
  for (const auto& run : golden["runs"]) {
    const bool negative = run["negative"].get<bool>();
    INFO("negative " << negative << ", threshold " << run["threshold"]);
    AnswerSearch search(q.key, {golden["longest"].get<int64_t>(), run["n_best"].get<int64_t>(), negative,
                                run["threshold"].get<double>()});
    search.add(q.start, q.end, q.samples);
    REQUIRE(search.found().size() == 24);
    for (const auto& [question, found] : search.found()) {
      const std::string id = q.key.questions[question].id;
      INFO("question " << id);
      CHECK(search.answer(found).text == run["said"][id].get<std::string>());
      // The reference adds two fp32 logits, this program adds doubles.
      if (negative) CHECK(found.excess() == Catch::Approx(run["odds"][id].get<double>()).margin(2e-6));
      if (!run.contains("nbest")) continue;
      const auto ranked = search.ranked(found);
      REQUIRE(ranked.size() == run["nbest"][id].size());
      for (size_t i = 0; i < ranked.size(); ++i) {
        const auto& want = run["nbest"][id][i];
        CHECK(ranked[i].first.text == want["text"].get<std::string>());
        CHECK(ranked[i].first.score ==
              Catch::Approx(want["start_logit"].get<double>() + want["end_logit"].get<double>())
                  .epsilon(1e-6)
                  .margin(1e-6));
        CHECK(ranked[i].second == Catch::Approx(want["probability"].get<double>()).epsilon(1e-5));
      }
    }
  }
}

TEST_CASE("answers and the lack of them are judged as SQuAD 2.0's script does") {
  std::ifstream in(test::test_data("trainer/answers2.json"));
  const auto golden = nlohmann::json::parse(in);
  const Questions q(golden);
  int runs = 0;
  for (const auto& run : golden["runs"]) {
    if (!run["negative"].get<bool>()) continue;
    ++runs;
    AnswerScores scores(q.key, {.longest = 6, .may_have_none = true, .null_threshold = run["threshold"].get<double>()});
    scores.add(q.start, q.end, q.samples);
    const auto& want = run["scores"];
    CHECK(scores.exact_match() == Catch::Approx(want["exact"].get<double>() / 100).epsilon(1e-12));
    CHECK(scores.f1() == Catch::Approx(want["f1"].get<double>() / 100).epsilon(1e-12));
    const auto kinds = scores.by_kind();
    REQUIRE(kinds.size() == AnswerScores::kind_names().size());
    for (const auto& [name, value] : kinds) {
      INFO(name);
      const double w = want.at(name).get<double>();
      if (name.ends_with("thresh")) {
        CHECK(value == Catch::Approx(w).margin(2e-6));  // tolerance: the reference subtracts fp32 logits
      } else {
        CHECK(value == Catch::Approx(name.ends_with("total") ? w : w / 100).epsilon(1e-12));
      }
    }
  }
  CHECK(runs == 3);
}

TEST_CASE("a question without finite logits has no answer, kinds that do not occur have no score") {
  AnswerKey key;
  key.passages = {"one two"};
  key.questions = {{"q", "?", 0, {}, 0, 0}};
  key.windows = {{0, 1, {{0, 3}, {4, 7}}, 0}};
  AnswerScores scores(key, {.may_have_none = true});
  const std::vector<float> nan(4, NAN);
  scores.add(nan, nan, std::vector<int64_t>{0});
  CHECK(scores.exact_match() == 1);
  const auto kinds = scores.by_kind();
  CHECK(std::isnan(kinds[0].second));
  CHECK(kinds[3].second == 1);
  CHECK(kinds[5].second == 1);
}
