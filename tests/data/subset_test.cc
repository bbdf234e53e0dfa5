// Subsets of a dataset, and stratified splits.
#include "data/subset.h"

#include <catch2/catch_all.hpp>
#include <map>
#include <set>

#include "data/tensor_dataset.h"
#include "tests/errors.h"

using namespace amp;
using namespace amp::test;
using Ints = std::vector<int64_t>;

namespace {

std::shared_ptr<const Dataset> numbered(const Ints& labels) {
  const auto n = static_cast<int64_t>(labels.size());
  std::vector<float> x(labels.size());
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  TensorOptions o;
  o.batch_size = 1;
  return make_tensor_dataset({{"x", HostTensor::of<float>({n, 1}, x)}, {"label", HostTensor::of<int64_t>({n}, labels)}},
                             "f.npz", {{"x", DType::f32, Dims{-1, 1}}}, o);
}

}  // namespace

TEST_CASE("a subset's batches are the other's") {
  const auto all = numbered({5, 6, 7, 8});
  const auto part = make_subset(all, {3, 1});
  CHECK(part->size() == 2);
  CHECK(part->where(0) == all->where(3));
  const Batch b = part->batch(Ints{1, 0});
  CHECK(b.labels.to_ints() == Ints{6, 8});
  CHECK(b.inputs.at("x").to_doubles() == std::vector<double>{1, 3});
}

TEST_CASE("a share is held out of every class, the same for a seed") {
  Ints labels;
  for (int i = 0; i < 100; ++i) labels.push_back(i < 80 ? 0 : i < 95 ? 1 : 2);
  const auto all = numbered(labels);
  const SampleSplit s = split_samples(*all, 0.2, 7);
  CHECK(s.held_out.size() == 20);
  CHECK(s.train.size() == 80);
  std::set<int64_t> seen(s.train.begin(), s.train.end());
  seen.insert(s.held_out.begin(), s.held_out.end());
  CHECK(seen.size() == 100);
  std::map<int64_t, int> by_class;
  for (const int64_t i : s.held_out) ++by_class[labels[static_cast<size_t>(i)]];
  CHECK(by_class == std::map<int64_t, int>{{0, 16}, {1, 3}, {2, 1}});
  CHECK(std::is_sorted(s.train.begin(), s.train.end()));
  CHECK(split_samples(*all, 0.2, 7).held_out == s.held_out);
  CHECK(split_samples(*all, 0.2, 8).held_out != s.held_out);
  CHECK(split_samples(*all, 0.013, 7).held_out.size() == 1);
  expect_error("E_VAL_SPLIT", "leaves none for validation", [&] { split_samples(*all, 0.001, 7); });
  expect_error("E_VAL_SPLIT", "leaves none for training", [&] { split_samples(*all, 0.999, 7); });
}

TEST_CASE("a sample has of every class its share, and keeps rows that belong together") {
  Ints labels;
  for (int i = 0; i < 100; ++i) labels.push_back(i < 50 ? 0 : i < 90 ? 1 : 2);  // sorted by class
  const auto all = numbered(labels);
  const Ints some = draw_samples(*all, 10, 1, 7);
  std::map<int64_t, int> by_class;
  for (const int64_t i : some) ++by_class[labels[static_cast<size_t>(i)]];
  CHECK(by_class == std::map<int64_t, int>{{0, 5}, {1, 4}, {2, 1}});
  CHECK(std::is_sorted(some.begin(), some.end()));
  CHECK(draw_samples(*all, 10, 1, 7) == some);
  CHECK(draw_samples(*all, 10, 1, 8) != some);
  const Ints pairs = draw_samples(*all, 9, 2, 7);  // the ninth sample would split a pair
  REQUIRE(pairs.size() == 8);
  for (size_t i = 0; i < pairs.size(); i += 2) {
    CHECK(pairs[i] % 2 == 0);
    CHECK(pairs[i + 1] == pairs[i] + 1);
  }
}
