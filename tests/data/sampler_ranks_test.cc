// Micro-batches that give every rank some rows (SamplerOptions::every_rank).
#include <algorithm>
#include <catch2/catch_all.hpp>

#include "data/sampler.h"

using namespace amp;

TEST_CASE("every rank gets rows of every micro-batch where it is asked for") {
  const int64_t samples = GENERATE(8, 20, 22, 23, 24);
  const int64_t ranks = 3, batch = 4;  // batch: number of rows of each rank's micro-batch
  SamplerOptions all;
  all.batch_size = batch * ranks;
  all.order = Order::shuffled;
  SamplerOptions o = all;
  o.batch_size = batch;
  o.ranks = ranks;
  o.every_rank = true;
  const int64_t rest = samples % all.batch_size;
  Sampler one(samples, {}, all);
  std::vector<Sampler> each;
  for (o.rank = 0; o.rank < ranks; ++o.rank) each.emplace_back(samples, std::span<const int32_t>(), o);
  const int64_t batches = samples / all.batch_size + (rest >= ranks);
  REQUIRE(each[0].batches_per_epoch() == std::max<int64_t>(batches, 1));
  for (int64_t b = 0; b < 2 * batches; ++b) {
    if (rest > 0 && rest < ranks && b == batches) one.seek({1, 0});
    const std::vector<int64_t> wanted = one.next().micro.at(0);
    std::vector<int64_t> found;
    for (Sampler& s : each) {
      const Window w = s.next();
      REQUIRE(w.micro.size() == 1);
      REQUIRE(!w.micro[0].empty());
      CHECK(w.first[0] == static_cast<int64_t>(found.size()));
      CHECK(w.samples == static_cast<int64_t>(wanted.size()));
      CHECK(w.last_of_epoch == ((b + 1) % batches == 0));
      found.insert(found.end(), w.micro[0].begin(), w.micro[0].end());
    }
    CHECK(found == wanted);
  }
}
