// Batches whose samples are all from one bucket, such as images of one size: every sample occurs once per epoch, orders
// are functions of seed and epoch, and ranks divide the batches.
#include <algorithm>
#include <catch2/catch_all.hpp>
#include <map>
#include <set>

#include "data/sampler.h"
#include "tests/errors.h"

using namespace amp;
using Ints = std::vector<int64_t>;
using Batches = std::vector<Ints>;

namespace {

std::vector<int32_t> buckets50() {  // 29 of bucket 0, 12 of 1, 8 of 2, 1 of 3
  std::vector<int32_t> out;
  for (int32_t i = 0; i < 50; ++i) out.push_back(i == 21 ? 3 : i % 4 == 1 ? 1 : i % 6 == 5 ? 2 : i % 12 == 3 ? 2 : 0);
  return out;
}

Sampler sampler_of(SamplerOptions o, const std::vector<int32_t>& buckets) {
  return {static_cast<int64_t>(buckets.size()), {}, o, buckets};
}

Batches epoch_of(Sampler& s) {
  Batches out;
  for (bool more = true; more;) {
    const Window w = s.next();
    out.insert(out.end(), w.micro.begin(), w.micro.end());
    more = !w.last_of_epoch;
  }
  return out;
}

}  // namespace

TEST_CASE("in the file's order a batch comes when its bucket has filled one", "[buckets]") {
  SamplerOptions o{.order = Order::file, .batch_size = 2};
  const std::vector<int32_t> buckets = {1, 0, 0, 2, 1, 1, 0, 2, 0, 0};
  Sampler s = sampler_of(o, buckets);
  CHECK(s.batches_per_epoch() == 6);
  CHECK(epoch_of(s) == Batches{{1, 2}, {0, 4}, {3, 7}, {6, 8}, {9}, {5}});
  CHECK(epoch_of(s).size() == 6);
  o.order = Order::by_length;
  Sampler first = sampler_of(o, buckets);
  CHECK(epoch_of(first) == Batches{{1, 2}, {6, 8}, {0, 4}, {3, 7}, {9}, {5}});
  Sampler one = sampler_of(o, std::vector<int32_t>(5, 0));
  CHECK(epoch_of(one) == Batches{{0, 1}, {2, 3}, {4}});
}

TEST_CASE("an epoch has every sample once, in batches of one bucket, one short one a bucket at most", "[buckets]") {
  const std::vector<int32_t> buckets = buckets50();
  SamplerOptions o;
  o.order = GENERATE(Order::file, Order::shuffled, Order::grouped, Order::by_length);
  o.batch_size = GENERATE(1, 4, 7, 64);
  o.accumulation = GENERATE(1, 3);
  Sampler s = sampler_of(o, buckets);
  Batches before;
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    const Batches batches = epoch_of(s);
    CHECK(static_cast<int64_t>(batches.size()) == s.batches_per_epoch(epoch));
    CHECK(s.state() == SamplerState{epoch + 1, 0});
    std::multiset<int64_t> seen;
    std::map<int32_t, int> short_ones;
    for (const Ints& b : batches) {
      seen.insert(b.begin(), b.end());
      const int32_t bucket = buckets[static_cast<size_t>(b.at(0))];
      CHECK(std::all_of(b.begin(), b.end(), [&](int64_t i) { return buckets[static_cast<size_t>(i)] == bucket; }));
      if (static_cast<int64_t>(b.size()) < o.batch_size) ++short_ones[bucket];
    }
    CHECK(seen.size() == 50);
    CHECK(std::set<int64_t>(seen.begin(), seen.end()).size() == 50);
    for (const auto& [bucket, count] : short_ones) CHECK(count == 1);
    const bool random = o.order == Order::shuffled || o.order == Order::grouped;
    CHECK((batches != before) == (random || epoch == 0));
    before = batches;
  }
}

TEST_CASE("batches of buckets are a function of seed and epoch, and are taken up anywhere", "[buckets]") {
  SamplerOptions o{.batch_size = 4, .accumulation = 2};
  const auto at = [&](uint64_t seed, SamplerState from) {
    o.seed = seed;
    Sampler s = sampler_of(o, buckets50());
    s.seek(from);
    Batches out;
    for (int i = 0; i < 20; ++i) {
      const Window w = s.next();
      out.insert(out.end(), w.micro.begin(), w.micro.end());
    }
    return out;
  };
  CHECK(at(1, {0, 0}) == at(1, {0, 0}));
  CHECK(at(1, {0, 0}) != at(2, {0, 0}));
  const Batches whole = at(1, {0, 0}), rest = at(1, {1, 3});  // 14 batches per epoch in 7 accumulation steps
  Sampler s = sampler_of(o, buckets50());
  CHECK(s.windows_per_epoch() == 7);
  CHECK(s.windows_of(2.5) == 18);
  CHECK(std::equal(whole.begin() + 14 + 6, whole.end(), rest.begin()));
}

TEST_CASE("ranks share batches of buckets", "[buckets][ranks]") {
  const int64_t ranks = GENERATE(2, 4);
  const bool every_rank = GENERATE(false, true);
  SamplerOptions o{.batch_size = 8, .accumulation = 3};
  Sampler one = sampler_of(o, buckets50());
  o.batch_size = 8 / ranks;
  o.ranks = ranks;
  o.every_rank = every_rank;
  std::vector<Sampler> each;
  for (o.rank = 0; o.rank < ranks; ++o.rank) each.push_back(sampler_of(o, buckets50()));
  // 29, 12, 8 and 1 samples: 4 short batches, and the batch of bucket 3 has a row for only one rank.
  CHECK(one.batches_per_epoch() == 8);
  REQUIRE(each[0].batches_per_epoch() == (every_rank ? 7 : 8));
  std::multiset<int64_t> seen;
  for (int64_t i = 0; i < one.windows_per_epoch(); ++i) {
    const Window want = one.next();
    std::vector<int64_t> all, found;
    for (const Ints& m : want.micro) all.insert(all.end(), m.begin(), m.end());
    for (Sampler& s : each) {
      const Window w = s.next();
      if (every_rank) CHECK(w.micro.size() == (i < 2 ? 3 : 1));
      for (size_t m = 0; m < w.micro.size(); ++m) {
        found.insert(found.end(), w.micro[m].begin(), w.micro[m].end());
        for (size_t k = 0; k < w.micro[m].size(); ++k)  // the position of the batch in the accumulation step
          CHECK(all.at(static_cast<size_t>(w.first[m]) + k) == w.micro[m][k]);
      }
      CHECK(w.last_of_epoch == (i == 2));
    }
    std::sort(all.begin(), all.end());
    std::sort(found.begin(), found.end());
    if (!every_rank) CHECK(found == all);
    seen.insert(found.begin(), found.end());
  }
  CHECK(seen.size() == (every_rank ? 49 : 50));
  CHECK(std::set<int64_t>(seen.begin(), seen.end()).size() == seen.size());
}

TEST_CASE("weighted draws are parted by bucket, so that epochs have different numbers of batches", "[buckets]") {
  SamplerOptions o{.batch_size = 6};
  std::vector<double> weights(50, 1.0);
  weights[7] = 25;
  o.weights = std::make_shared<const std::vector<double>>(weights);
  const std::vector<int32_t> buckets = buckets50();
  Sampler s = sampler_of(o, buckets);
  Sampler plain(50, {}, o);
  std::set<int64_t> counts;
  int64_t windows = 0;
  for (int64_t epoch = 0; epoch < 12; ++epoch) {
    CHECK(s.windows_of(static_cast<double>(epoch)) == windows);
    const int64_t batches = s.batches_per_epoch(epoch);
    counts.insert(batches);
    windows += batches;
    Ints drawn = s.epoch_order(epoch), want = plain.epoch_order(epoch);
    std::sort(drawn.begin(), drawn.end());
    std::sort(want.begin(), want.end());
    CHECK(drawn == want);
    CHECK(static_cast<int64_t>(epoch_of(s).size()) == batches);
  }
  CHECK(counts.size() > 1);
}

TEST_CASE("buckets without a row for each rank are refused where every rank needs one", "[buckets]") {
  SamplerOptions o{.batch_size = 2};
  o.ranks = 2;
  o.every_rank = true;
  Sampler s = sampler_of(o, {0, 1, 2});
  amp::test::expect_error(
      "E_RANKS_SETTING", "each of 2 ranks", [&] { s.batches_per_epoch(); }, Exit::usage);
}
