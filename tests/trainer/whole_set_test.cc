// Metrics over a whole dataset: roots of means, the nearest candidate, lengths of answers; and the metadata of a model.
#include <catch2/catch_all.hpp>
#include <cmath>

#include "trainer/losses/loss_text.h"
#include "trainer/tasks/answers.h"
#include "trainer/tasks/model_record.h"
#include "trainer/tasks/nearest.h"

using namespace amp;

TEST_CASE("a loss that is the root of a mean is that of all items of the set") {
  Losses losses;
  losses.parts = parse_losses({"rmspe_exp", "mse,weight=0.5"});
  const auto batch = [](int64_t n) {
    return Tensors{{"x", HostTensor::zeros(DType::f32, {n})}, {"label", HostTensor::zeros(DType::f32, {n})}};
  };
  LossAccumulator set(losses, true), window(losses);
  double squares = 0, roots = 0, items = 0;
  // n: number of items, q: sum of squares.
  for (const auto& [n, q] : {std::pair{3.0, 12.0}, {1.0, 100.0}, {4.0, 0.0}}) {
    for (LossAccumulator* w : {&set, &window}) {
      w->count(batch(static_cast<int64_t>(n)));
      w->add({n * std::sqrt(q / n), 2 * n});
    }
    squares += q;
    roots += n * std::sqrt(q / n);
    items += n;
  }
  CHECK(set.loss() == Catch::Approx(std::sqrt(squares / items) + 0.5 * 2).epsilon(1e-12));
  // The mean of the roots, which training minimizes.
  CHECK(window.loss() == Catch::Approx(roots / items + 0.5 * 2).epsilon(1e-12));
  CHECK(set.seeds(1) == window.seeds(1));
}

TEST_CASE("the own candidate is the nearest of the whole set, ties and NaN are misses") {
  // Anchors (1,0), (0,1), (1,1); candidates (2,0.1), (1,0), (0,3).
  const std::vector<float> rows = {1, 0, 2, 0.1f, 0, 1, 1, 0, 1, 1, 0, 3};
  Nearest whole, parts;
  whole.add(rows, 2, 2);
  for (size_t i = 0; i < 3; ++i) parts.add(std::span(rows).subspan(4 * i, 4), 2, 2);
  // Cosines of each anchor with the three candidates. Anchor 0: .9988 (own), 1, 0, so rank 2. Anchor 1: .0499, 0 (own),
  // 1, so rank 3. Anchor 2: .7415, .7071, .7071 (own), so rank 3, because of the tie.
  for (const Nearest* n : {&whole, &parts}) {
    CHECK(n->scores().accuracy == 0);
    CHECK(n->scores().mrr == Catch::Approx((1.0 / 2 + 1.0 / 3 + 1.0 / 3) / 3));
  }
  const std::vector<CandidateRank>& ranks = parts.ranks();
  REQUIRE(ranks.size() == 3);
  CHECK((ranks[0].rank == 2 && ranks[0].nearest == 1 && ranks[0].side == 1));
  CHECK((ranks[1].rank == 3 && ranks[1].nearest == 2));
  CHECK((ranks[2].rank == 3 && ranks[2].nearest == 0));
  // This candidate is nearer to the third anchor than the other candidates are, but not to the first.
  parts.add(std::vector<float>{0, 1, 1, 1}, 2, 2);
  CHECK((parts.ranks()[0].rank == 2 && parts.ranks()[2].rank == 4 && parts.ranks()[2].nearest == 3));
  Nearest hard;  // the third row of each item is a negative
  hard.add(std::vector<float>{1, 0, 1, 0.5f, 1, 0.1f, 0, 1, 0, 1, 1, 0}, 2, 3);
  CHECK(hard.scores().accuracy == 0.5);
  CHECK((hard.ranks()[0].rank == 3 && hard.ranks()[0].nearest == 1 && hard.ranks()[0].side == 2));
  Nearest nan;
  nan.add(std::vector<float>{1, 0, NAN, 0, 0, 1, 0, 1}, 2, 2);
  CHECK(nan.scores().accuracy == 0.5);
  CHECK(Nearest().scores().accuracy == 0);
  // With several blocks, only the candidates of the same block count.
  Nearest many;
  std::vector<float> same;
  for (int64_t i = 0; i < Nearest::kBlock + 1; ++i) same.insert(same.end(), {1, 0, 1, 0});
  many.add(same, 2, 2);
  CHECK(many.scores().accuracy == Catch::Approx(1.0 / static_cast<double>(Nearest::kBlock + 1)));
}

TEST_CASE("an answer is as long as it is allowed to be") {
  AnswerKey key;
  key.passages = {"one two three"};
  key.questions = {{"q", "?", 0, {{"one two three", 0}}}};
  key.windows = {{0, 1, {{0, 3}, {4, 7}, {8, 13}}}};
  const std::vector<float> start = {0, 9, 0, 0}, end = {0, 0, 0, 9};
  AnswerScores all(key), two(key, {.longest = 2});
  all.add(start, end, std::vector<int64_t>{0});
  two.add(start, end, std::vector<int64_t>{0});
  CHECK(all.exact_match() == 1);
  CHECK(two.exact_match() == 0);
}

TEST_CASE("a model's record is read back, and other programs' keys are left alone") {
  ModelRecord r;
  r.task = Task::token;
  r.labels = {"O", "B-PER \"x\""};
  r.losses = parse_losses({"cross_entropy,output=logits,label_smoothing=0.1,weight=0.5", "distill,output=logits"});
  r.preprocessing = {{"max_seq_len", {"64"}}, {"text_columns", {"a", "b"}}};
  r.ranges = {{"x", {true, 0, 255}}, {"y", {false, -0.5, 0.25}}};
  r.features = R"({"version":1,"continuous":[]})";
  const auto written = to_metadata(r);
  const ModelRecord back = from_metadata([&](const std::string& k) { return written.at(k); });
  CHECK(back.task == r.task);
  CHECK(back.labels == r.labels);
  REQUIRE(back.losses.size() == 1);  // losses with a teacher, and their weight, are not recorded
  CHECK(loss_json(back.losses[0]) == R"({"kind":"cross_entropy","outputs":["logits"],"label_smoothing":0.1})");
  CHECK(back.preprocessing == r.preprocessing);
  CHECK(back.features == r.features);
  CHECK(back.ranges.at("x").whole);
  CHECK(back.ranges.at("y").low == -0.5);
  for (const auto& [key, value] : to_metadata({})) CHECK(value.empty());
  const std::map<std::string, std::string> theirs = {
      {"task", "classify"},     {"labels", "{'0': 'cat'}"},    {"loss", "0.25"},
      {"preprocessing", "[1]"}, {"features", R"(["x", "y"])"}, {"input_ranges", "{\"x\": 3}"}};
  const ModelRecord none = from_metadata([&](const std::string& k) { return theirs.at(k); });
  CHECK((none.task == Task::none && none.labels.empty() && none.losses.empty()));
  CHECK((none.preprocessing.empty() && none.features.empty() && none.ranges.empty()));
}
