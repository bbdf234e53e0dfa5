// Answers against SQuAD's evaluation script (tests/data/trainer/answers.json, made by
// tests/data/data/make_questions_golden.py).
#include "trainer/answers.h"

#include <catch2/catch_all.hpp>
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
}

TEST_CASE("the best span of all windows of a question counts") {
  AnswerKey key;
  key.passages = {"one two three four"};
  key.questions = {{"q", "?", 0, {{"two three", 4}, {"four", 14}}}, {"r", "?", 0, {{"one", 0}}}};
  key.windows = {{0, 2, {{0, 3}, {4, 7}, {8, 13}}}, {0, 2, {{8, 13}, {14, 18}}}, {1, 2, {{0, 3}, {4, 7}}}};
  // Tokens 0 and 1 are the question's, the last one [SEP]'s: never part of an answer.
  const std::vector<float> start = {9, 0, 0, 2, 0, 9, 0, 0, 0, 1, 0, 0, 0, 0, 3, 2, 0, 0};
  const std::vector<float> end = {9, 0, 0, 0, 2, 9, 0, 0, 1, 1, 0, 0, 0, 0, 0, 2, 0, 0};
  AnswerScores one(key);
  one.add(start, end, std::vector<int64_t>{0, 1, 2});
  CHECK(one.exact_match() == 0.5);  // "two three" (4) beats "four" (2); "one two" is not "one"
  CHECK(one.f1() == Catch::Approx((1 + 2.0 / 3) / 2));
  AnswerScores other(key);  // in any order, in parts
  other.add(std::span(start).subspan(6, 6), std::span(end).subspan(6, 6), std::vector<int64_t>{1});
  other.add(std::span(start).subspan(0, 6), std::span(end).subspan(0, 6), std::vector<int64_t>{0});
  CHECK(other.exact_match() == 1);
  CHECK(AnswerScores(key).f1() == 0);
}
