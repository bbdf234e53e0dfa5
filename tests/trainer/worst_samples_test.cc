// The samples with the largest errors of an evaluation: errors computed by hand, kept in order, independent of the
// batches.
#include "trainer/tasks/worst_samples.h"

#include <catch2/catch_all.hpp>
#include <cmath>

#include "trainer/loop/evaluate.h"

using namespace amp;

namespace {

class Nothing final : public Dataset {
 public:
  int64_t size() const override { return 0; }
  Batch batch(std::span<const int64_t>) const override { return {}; }
  std::string where(int64_t sample) const override { return std::to_string(sample); }
  void check_token_range(const std::string&, int64_t) const override {}
  void check_label_range(int64_t, int64_t) const override {}
};

struct Judged {
  Nothing data;
  Objective objective;
  WorstSamples worst;
  Judged(Task task, const std::string& kind, std::vector<std::string> classes, size_t most = 16) : worst(most, 2) {
    objective.task = task;
    objective.losses.parts.resize(1);
    objective.losses.parts[0].kind = kind;
    objective.classes = std::move(classes);
    begin();
  }
  void begin() {
    worst.begin(objective.task, objective.losses.parts[0],
                {objective.classes, data.answers(), objective.answers, objective.target});
  }
  void add(const Dims& shape, const std::vector<float>& outputs, const HostTensor& label,
           std::vector<int64_t> samples) {
    worst.add({HostTensor::of<float>(shape, outputs)}, label, samples);
  }
};

HostTensor ids(const Dims& dims, const std::vector<int64_t>& values) { return HostTensor::of<int64_t>(dims, values); }

const float kNaN = std::numeric_limits<float>::quiet_NaN();

}  // namespace

TEST_CASE("the worst of classes are the wrong ones, by -log p of their labels") {
  Judged j(Task::classification, "cross_entropy", {"no", "yes"}, 2);
  j.add({3, 2}, {0, 1, 0, 3, 5, 0}, ids({3}, {0, 0, 0}), {7, 3, 5});  // the last row is predicted correctly
  j.add({2, 2}, {2, 0, kNaN, 0}, ids({2}, {1, kIgnoreIndex}), {1, 2});
  const std::vector<SampleRecord> worst = j.worst.worst();
  REQUIRE(worst.size() == 2);
  CHECK(worst[0].sample == 3);
  CHECK(worst[0].error == Catch::Approx(std::log1p(std::exp(3.0))));
  CHECK(worst[0].label == "no");
  CHECK(worst[0].predicted == "yes");
  CHECK(worst[0].probability == Catch::Approx(1 / (1 + std::exp(-3.0))));
  CHECK(worst[1].sample == 1);
  CHECK(worst[1].error == Catch::Approx(std::log1p(std::exp(2.0))));
  j.add({1, 2}, {kNaN, 0}, ids({1}, {1}), {9});
  CHECK(j.worst.worst()[0].sample == 9);  // NaN is worse than any number
  CHECK(std::isinf(j.worst.worst()[0].error));
  j.begin();
  CHECK(j.worst.worst().empty());
}

TEST_CASE("of equal errors the earlier samples are kept, in any order of the batches") {
  for (const bool turned : {false, true}) {
    Judged j(Task::classification, "cross_entropy", {}, 2);
    for (int64_t i = 0; i < 5; ++i) j.add({1, 2}, {1, 0}, ids({1}, {1}), {turned ? 4 - i : i});
    REQUIRE(j.worst.worst().size() == 2);
    CHECK(j.worst.worst()[0].sample == 0);
    CHECK(j.worst.worst()[1].sample == 1);
    CHECK(j.worst.worst()[0].label == "1");  // classes have no names, so the number is the label
  }
}

TEST_CASE("the worst of one logit, of sets, of numbers and of tags") {
  Judged one(Task::classification, "bce_logits", {"a", "b"});
  one.add({2}, {2, -2}, ids({2}, {0, 0}), {0, 1});
  REQUIRE(one.worst.worst().size() == 1);
  CHECK(one.worst.worst()[0].error == Catch::Approx(std::log1p(std::exp(2.0))));

  Judged sets(Task::multilabel, "bce_logits", {"a", "b", "c"});
  sets.add({2, 3}, {1, -1, 2, 1, -1, -1}, HostTensor::of<float>({2, 3}, {1, 1, 0, 1, 0, 0}), {0, 1});
  REQUIRE(sets.worst.worst().size() == 1);
  CHECK(sets.worst.worst()[0].label == "a, b");
  CHECK(sets.worst.worst()[0].predicted == "a, c");
  CHECK(sets.worst.worst()[0].error ==
        Catch::Approx(std::log1p(std::exp(-1.0)) + std::log1p(std::exp(1.0)) + std::log1p(std::exp(2.0))));

  Judged numbers(Task::regression, "mse", {});
  numbers.add({3, 1}, {1, 5, 2}, HostTensor::of<float>({3}, {1, 2, 2.5}), {0, 1, 2});
  REQUIRE(numbers.worst.worst().size() == 2);
  CHECK(numbers.worst.worst()[0].error == Catch::Approx(3));
  CHECK(numbers.worst.worst()[0].label == "2");
  CHECK(numbers.worst.worst()[0].predicted == "5");

  Judged tags(Task::token, "cross_entropy", {"O", "B"});
  tags.add({1, 4, 2}, {9, 0, 0, 3, 0, 1, 2, 0}, ids({1, 4}, {kIgnoreIndex, 0, 1, 1}), {4});
  REQUIRE(tags.worst.worst().size() == 1);
  CHECK(tags.worst.worst()[0].label == "O B B");
  CHECK(tags.worst.worst()[0].predicted == "B B O");
  CHECK(tags.worst.worst()[0].error == Catch::Approx(std::log1p(std::exp(3.0)) + std::log1p(std::exp(2.0))));
}

TEST_CASE("masks: the share of wrong pixels, and the first samples whatever their error") {
  Judged j(Task::segmentation, "cross_entropy_nchw", {}, 1);
  const std::vector<float> left = {1, 1, 0, 0, /* class 1 */ 0, 0, 1, 1};  // 2 x 2: class 0 in row 0, class 1 in row 1
  j.add({1, 2, 2, 2}, left, ids({1, 2, 2}, {0, 1, 1, kIgnoreIndex}), {2});
  j.add({1, 2, 2, 2}, left, ids({1, 2, 2}, {1, 1, 0, 0}), {5});
  j.add({1, 2, 2, 2}, left, ids({1, 2, 2}, {0, 0, 1, 1}), {1});
  REQUIRE(j.worst.worst().size() == 1);
  CHECK(j.worst.worst()[0].sample == 5);
  CHECK(j.worst.worst()[0].error == 1);
  REQUIRE(j.worst.always().size() == 2);
  CHECK(j.worst.always()[0].sample == 1);
  CHECK(j.worst.always()[0].error == 0);
  CHECK(j.worst.always()[1].sample == 2);
  CHECK(j.worst.always()[1].error == Catch::Approx(1.0 / 3));
  CHECK(j.worst.always()[1].predicted_mask.data == std::vector<int16_t>{0, 0, 1, 1});
  CHECK(j.worst.always()[1].label_mask.data == std::vector<int16_t>{0, 1, 1, kNoClass});
}

TEST_CASE("the worst of texts are those of the largest mean loss, told by the token that cost most") {
  const auto loss_of = [](float more) {
    return std::log1p(2 * std::exp(-static_cast<double>(more)));
  };  // the loss of the logits 0, 0, `more`, whose label is the last class
  Judged ahead(Task::language, "causal_lm", {}, 2);
  // Position s predicts the label at s + 1. The last row of logits predicts nothing.
  const std::vector<float> x = {0, 3, 0, 0, 0, 1, 9, 9, 9, /* the other sequence */ 4, 0, 0, 0, 0, 5, 9, 9, 9};
  ahead.add({2, 3, 3}, x, ids({2, 3}, {2, 1, 0, 2, 0, 2}), {6, 4});
  const std::vector<SampleRecord> worst = ahead.worst.worst();
  REQUIRE(worst.size() == 2);  // every text has a loss above 0
  CHECK(worst[0].sample == 6);
  // The label is token 0, and the logit of token 2 is larger by 1.
  CHECK(worst[0].error == Catch::Approx((loss_of(3) + loss_of(1) + 1) / 2));
  CHECK(worst[0].label_token == 0);
  CHECK(worst[0].predicted_token == 2);
  CHECK(worst[0].probability == Catch::Approx(std::exp(-loss_of(1))));
  CHECK(worst[1].error == Catch::Approx((loss_of(4) + loss_of(5)) / 2));
  CHECK(worst[1].label_token == 0);

  Judged here(Task::seq2seq, "cross_entropy", {});  // each label is at the position that predicts it
  here.add({2, 2, 3}, {0, 2, 0, 7, 7, 7, 0, 0, 0, kNaN, 0, 0}, ids({2, 2}, {0, kIgnoreIndex, kIgnoreIndex, 1}), {0, 1});
  REQUIRE(here.worst.worst().size() == 2);
  CHECK(std::isinf(here.worst.worst()[0].error));
  CHECK(here.worst.worst()[1].error == Catch::Approx(loss_of(2) + 2));
  here.begin();
  // Label 3 is not an index of the three tokens.
  here.add({1, 2, 3}, std::vector<float>(6), ids({1, 2}, {kIgnoreIndex, 3}), {0});
  CHECK(here.worst.worst().empty());
}

TEST_CASE("the worst of retrieval are those whose own candidate ranks worst, known when all rows are there") {
  for (const int64_t each : {0, 1, 2}) {  // the samples of an item: an empty list, a pair, or one row per side
    Judged j(Task::retrieval, "multiple_negatives", {}, 2);
    const std::unique_ptr<TaskMetrics> metrics = make_metrics(Task::retrieval, j.objective.losses.parts[0]);
    // Anchors at 0, 90, 30, 80 degrees and their candidates at 10, 20, 170, 85 degrees give the ranks 1, 2, 4, 1.
    const std::vector<std::pair<double, double>> pairs = {{0, 10}, {90, 20}, {30, 170}, {80, 85}};
    const int64_t samples[] = {5, 2, 9, 0};
    for (size_t i = 0; i < pairs.size(); ++i) {
      std::vector<float> rows;
      for (const double degrees : {pairs[i].first, pairs[i].second}) {
        rows.push_back(static_cast<float>(std::cos(degrees * std::acos(-1) / 180)));
        rows.push_back(static_cast<float>(std::sin(degrees * std::acos(-1) / 180)));
      }
      std::vector<int64_t> of;
      for (int64_t s = 0; s < each; ++s) of.push_back(each * samples[i] + s);
      const HostTensor out = HostTensor::of<float>({2, 2}, rows);
      metrics->add({out}, HostTensor(), of);
      j.worst.add({out}, HostTensor(), of);
    }
    CHECK(j.worst.worst().empty());
    j.worst.finish(*metrics);
    const std::vector<SampleRecord> worst = j.worst.worst();
    REQUIRE(worst.size() == (each > 0 ? 2 : 0));
    if (each == 0) continue;
    CHECK(worst[0].sample == 9 * each);
    CHECK(worst[0].error == 4);
    CHECK(worst[0].nearest == 2 * each);  // the candidate at 20 degrees
    CHECK(worst[0].nearest_side == 1);
    CHECK(worst[1].sample == 2 * each);
    CHECK(worst[1].error == 2);
    CHECK(worst[1].nearest == 0);  // the candidate at 85 degrees
  }
}

TEST_CASE("outputs that are of no row each are not judged") {
  Judged j(Task::classification, "cross_entropy", {});
  j.add({3, 1}, {1, 2, 3}, ids({2}, {0, 1}), {0, 1});
  j.add({2, 2}, {1, 0, 1, 0}, HostTensor(), {0, 1});
  j.add({2, 2}, {1, 0, 1, 0}, ids({2}, {7, -1}), {0, 1});
  CHECK(j.worst.worst().empty());
}
