// The samples that an evaluation is worst at: errors by hand, kept in order, whatever the batches.
#include "trainer/worst_samples.h"

#include <catch2/catch_all.hpp>
#include <cmath>

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

struct Judge {
  Nothing data;
  Objective objective;
  WorstSamples worst;
  Judge(Task task, const std::string& kind, std::vector<std::string> classes, size_t most = 16) : worst(most, 2) {
    objective.task = task;
    objective.losses.parts.resize(1);
    objective.losses.parts[0].kind = kind;
    objective.classes = std::move(classes);
    worst.begin(objective, data);
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
  Judge j(Task::classification, "cross_entropy", {"no", "yes"}, 2);
  j.add({3, 2}, {0, 1, 0, 3, 5, 0}, ids({3}, {0, 0, 0}), {7, 3, 5});  // the last one is right
  j.add({2, 2}, {2, 0, kNaN, 0}, ids({2}, {1, kIgnoreIndex}), {1, 2});
  const std::vector<JudgedSample> worst = j.worst.worst();
  REQUIRE(worst.size() == 2);
  CHECK(worst[0].sample == 3);
  CHECK(worst[0].error == Catch::Approx(std::log1p(std::exp(3.0))));
  CHECK(worst[0].label == "no");
  CHECK(worst[0].predicted == "yes");
  CHECK(worst[0].probability == Catch::Approx(1 / (1 + std::exp(-3.0))));
  CHECK(worst[1].sample == 1);
  CHECK(worst[1].error == Catch::Approx(std::log1p(std::exp(2.0))));
  j.add({1, 2}, {kNaN, 0}, ids({1}, {1}), {9});
  CHECK(j.worst.worst()[0].sample == 9);  // no number is worse than any
  CHECK(std::isinf(j.worst.worst()[0].error));
  j.worst.begin(j.objective, j.data);
  CHECK(j.worst.worst().empty());
}

TEST_CASE("of equal errors the earlier samples are kept, in any order of the batches") {
  for (const bool turned : {false, true}) {
    Judge j(Task::classification, "cross_entropy", {}, 2);
    for (int64_t i = 0; i < 5; ++i) j.add({1, 2}, {1, 0}, ids({1}, {1}), {turned ? 4 - i : i});
    REQUIRE(j.worst.worst().size() == 2);
    CHECK(j.worst.worst()[0].sample == 0);
    CHECK(j.worst.worst()[1].sample == 1);
    CHECK(j.worst.worst()[0].label == "1");  // classes without names
  }
}

TEST_CASE("the worst of one logit, of sets, of numbers and of tags") {
  Judge one(Task::classification, "bce_logits", {"a", "b"});
  one.add({2}, {2, -2}, ids({2}, {0, 0}), {0, 1});
  REQUIRE(one.worst.worst().size() == 1);
  CHECK(one.worst.worst()[0].error == Catch::Approx(std::log1p(std::exp(2.0))));

  Judge sets(Task::multilabel, "bce_logits", {"a", "b", "c"});
  sets.add({2, 3}, {1, -1, 2, 1, -1, -1}, HostTensor::of<float>({2, 3}, {1, 1, 0, 1, 0, 0}), {0, 1});
  REQUIRE(sets.worst.worst().size() == 1);
  CHECK(sets.worst.worst()[0].label == "a, b");
  CHECK(sets.worst.worst()[0].predicted == "a, c");
  CHECK(sets.worst.worst()[0].error ==
        Catch::Approx(std::log1p(std::exp(-1.0)) + std::log1p(std::exp(1.0)) + std::log1p(std::exp(2.0))));

  Judge numbers(Task::regression, "mse", {});
  numbers.add({3, 1}, {1, 5, 2}, HostTensor::of<float>({3}, {1, 2, 2.5}), {0, 1, 2});
  REQUIRE(numbers.worst.worst().size() == 2);
  CHECK(numbers.worst.worst()[0].error == Catch::Approx(3));
  CHECK(numbers.worst.worst()[0].label == "2");
  CHECK(numbers.worst.worst()[0].predicted == "5");

  Judge tags(Task::token, "cross_entropy", {"O", "B"});
  tags.add({1, 4, 2}, {9, 0, 0, 3, 0, 1, 2, 0}, ids({1, 4}, {kIgnoreIndex, 0, 1, 1}), {4});
  REQUIRE(tags.worst.worst().size() == 1);
  CHECK(tags.worst.worst()[0].label == "O B B");
  CHECK(tags.worst.worst()[0].predicted == "B B O");
  CHECK(tags.worst.worst()[0].error == Catch::Approx(std::log1p(std::exp(3.0)) + std::log1p(std::exp(2.0))));
}

TEST_CASE("masks: the share of wrong pixels, and the first samples whatever their error") {
  Judge j(Task::segmentation, "cross_entropy_nchw", {}, 1);
  const std::vector<float> left = {1, 1, 0, 0, /* class 1 */ 0, 0, 1, 1};  // 2 x 2: class 0 above, 1 below
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

TEST_CASE("outputs that are of no row each are not judged") {
  Judge j(Task::classification, "cross_entropy", {});
  j.add({3, 1}, {1, 2, 3}, ids({2}, {0, 1}), {0, 1});
  j.add({2, 2}, {1, 0, 1, 0}, HostTensor(), {0, 1});
  j.add({2, 2}, {1, 0, 1, 0}, ids({2}, {7, -1}), {0, 1});
  CHECK(j.worst.worst().empty());
}
