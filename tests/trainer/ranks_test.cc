// Data-parallel training: replicas have the same weights, which equal those of one device with the whole batch.
#include "tests/trainer/ranked_run.h"

using namespace amp;
using namespace amp::test;

TEST_CASE("collectives of threads", "[ranks]") {
  const int size = GENERATE(1, 2, 3, 4);
  const int64_t n = GENERATE(1, 5, 64, 1000);
  on_ranks(size, [&](Communicator& rank) {
    const auto of = [&](int r, int64_t i) { return static_cast<float>((i * 37 + r * 101) % 97) * 0.37f - 11.0f; };
    std::vector<float> x(static_cast<size_t>(n));
    std::vector<double> top(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i) top[static_cast<size_t>(i)] = x[static_cast<size_t>(i)] = of(rank.rank(), i);
    Communicator::Handle handle = rank.start_sum(std::make_shared<RankSum>(RankSum{nullptr, std::span(x)}));
    rank.all_reduce(std::span(top), Reduction::max);
    handle.get();
    std::vector<float> shared(static_cast<size_t>(n), static_cast<float>(rank.rank()));
    std::vector<float> scattered(static_cast<size_t>(n), 1);
    rank.all_gather(std::span(shared));
    rank.reduce_scatter(std::span(scattered), Reduction::sum);
    rank.barrier();
    std::string text = rank.rank() == size - 1 ? std::string(100, 'x') : "other";
    rank.broadcast(text, size - 1);
    bool good = text == std::string(100, 'x');
    for (int64_t i = 0; i < n; ++i) {
      float sum = of(0, i), most = of(0, i);
      for (int r = 1; r < size; ++r) sum += of(r, i), most = std::max(most, of(r, i));
      good = good && x[static_cast<size_t>(i)] == sum && top[static_cast<size_t>(i)] == static_cast<double>(most);
    }
    int64_t covered = 0;
    for (int r = 0; r < size; ++r) {
      const Communicator::Shard s = rank.shard(n, r);
      good = good && s.begin == covered;
      covered += s.count;
      for (int64_t i = s.begin; i < s.begin + s.count; ++i) {
        good = good && shared[static_cast<size_t>(i)] == static_cast<float>(r);
        good = good && scattered[static_cast<size_t>(i)] == static_cast<float>(r == rank.rank() ? size : 1);
      }
    }
    if (!good || covered != n) throw std::runtime_error("a wrong element");
  });
}

TEST_CASE("whoever waits for a rank that failed is told", "[ranks]") {
  std::atomic<int> told = 0;
  CHECK_THROWS_WITH(on_ranks(3,
                             [&](Communicator& rank) {
                               if (rank.rank() == 1) throw std::runtime_error("out of paper");
                               try {
                                 for (int i = 0; i < 5; ++i) rank.barrier();
                               } catch (const Error& e) {
                                 told += e.exit() == Exit::distributed && e.fact() == "rank 1: out of paper";
                                 throw;
                               }
                             }),
                    "out of paper");
  CHECK(told == 2);
}

TEST_CASE("a non-finite number of any rank survives a sum and a maximum", "[ranks]") {
  const int bad = GENERATE(0, 1, 2);
  on_ranks(3, [&](Communicator& rank) {
    for (const Reduction how : {Reduction::sum, Reduction::max}) {
      std::vector<float> x{rank.rank() == bad ? std::numeric_limits<float>::quiet_NaN() : 1.0f};
      rank.all_reduce(std::span(x), how);
      if (!std::isnan(x[0])) throw std::runtime_error("lost");
    }
  });
}

TEST_CASE("K ranks of B samples train like one of K B", "[ranks]") {
  const test::TempDir folder;
  RankedRun job(folder / "run");
  const std::vector<Replica> one = job.run(1, 8);
  REQUIRE(one[0].losses.size() == 50);
  CHECK(one[0].losses.back() < one[0].losses.front());
  for (const int size : {2, 4}) {
    INFO(size << " ranks");
    const std::vector<Replica> ranks = job.run(size, 8);
    require_equal(ranks);
    CHECK(furthest(ranks[0].losses, one[0].losses) <= 1e-5);
    CHECK(furthest(ranks[0].norms, one[0].norms) <= 1e-5);
    CHECK(furthest(ranks[0].params[0], one[0].params[0]) <= 1e-6);
    CHECK(ranks[0].result.samples == one[0].result.samples);
    CHECK(ranks[3 % static_cast<size_t>(size)].result.last->loss == ranks[0].result.last->loss);
    const std::vector<Replica> again = job.run(size, 8);
    CHECK(again[0].params == ranks[0].params);
  }
}

TEST_CASE("an overflow on one rank is everybody's: all skip", "[ranks]") {
  const test::TempDir folder;
  RankedRun job(folder / "run");
  require_skipped_together(job);
}

TEST_CASE("every rule of the update sees the gradients of all ranks", "[ranks]") {
  const test::TempDir folder;
  RankedRun job(folder / "run");
  job.config.max_steps = 10;
  SECTION("SAM") { job.config.optimizer.sam_rho = 0.05; }
  SECTION("EMA") { job.config.optimizer.ema_decays = {0.9}; }
  SECTION("a rule with curvature") {
    job.config.optimizer.rule = "sophia_h";
    job.config.optimizer.settings = rule_settings("sophia_h", {});
    job.config.optimizer.settings.hessian_interval = 2;
  }
  SECTION("a rule with drawn labels") {
    job.config.optimizer.rule = "sophia_g";
    job.config.optimizer.settings = rule_settings("sophia_g", {});
    job.config.optimizer.settings.hessian_interval = 2;
  }
  SECTION("gradients clipped") { job.config.optimizer.max_grad_norm = 0.1; }
  const std::vector<Replica> one = job.run(1, 8), two = job.run(2, 8);
  require_equal(two);
  CHECK(furthest(two[0].losses, one[0].losses) <= 1e-5);
  require_every_step_applied(one[0]);
}

// The mean of the input does not depend on the division of the rows among ranks. At the end of an epoch one of two
// ranks has no rows.
TEST_CASE("running statistics are averaged over the ranks by their samples", "[ranks]") {
  const test::TempDir folder;
  RankedRun job(folder / "run");
  job.use_batch_norm();
  const std::vector<Replica> one = job.run(1, 8);
  REQUIRE(std::abs(one[0].mean.at(0)) > 1e-3);
  for (const int size : {2, 4}) {
    const std::vector<Replica> ranks = job.run(size, 8);
    require_equal(ranks);
    CHECK(furthest(ranks[0].mean, one[0].mean) <= 1e-6);
  }
}

// The last micro-batch of an epoch has only 4 rows, so some ranks have one row or none.
TEST_CASE("synchronized batch normalization sees the rows of all ranks", "[ranks]") {
  const test::TempDir folder;
  RankedRun job(folder / "run");
  job.use_batch_norm();
  SECTION("fp32") {}
  SECTION("fp16, accumulated") {
    job.options.low = DType::f16;
    job.options.compute.assign(job.graph.nodes.size(), DType::f16);
    job.config.sampler.accumulation = 2;
    job.config.scale.init = 1024;
  }
  const bool low = job.options.low == DType::f16 && !job.options.compute.empty();
  const std::vector<Replica> one = job.run(1, 8), apart = job.run(4, 8);
  CHECK(furthest(apart[0].losses, one[0].losses) > 1e-2);  // without synchronization: statistics of two rows
  job.options.sync_batchnorm = job.config.sampler.every_rank = true;
  for (const int size : {2, 4}) {
    INFO(size << " ranks");
    const std::vector<Replica> ranks = job.run(size, 8);
    require_equal(ranks);
    // Under a plan, one rank normalizes values that were rounded to fp16 (2^-11 of up to 4). Several ranks normalize in
    // fp32.
    CHECK(furthest(ranks[0].losses, one[0].losses) <= (low ? 2e-3 : 1e-5));
    CHECK(furthest(ranks[0].mean, one[0].mean) <= (low ? 5e-4 : 1e-6));
    if (!low) CHECK(furthest(ranks[0].params.back(), one[0].params.back()) <= 1e-5);
  }
}

TEST_CASE("a checkpoint goes on with another number of ranks", "[ranks]") {
  const test::TempDir folder;
  RankedRun job(folder / "run");
  job.config.save_steps = 5;
  job.config.save_total_limit = 0;
  job.config.max_steps = 20;
  job.config.schedule.total_steps = 20;
  const std::vector<Replica> whole = job.run(2, 8);
  const Checkpoint at = load_checkpoint(checkpoint_path(job.config.output_dir + "/checkpoints", 10));
  RankedRun other(folder / "other");
  other.config.max_steps = other.config.schedule.total_steps = 20;
  for (const int size : {1, 2, 4}) {
    const std::vector<Replica> rest = other.run(size, 8, &at);
    require_equal(rest);
    REQUIRE(rest[0].losses.size() == 10);
    if (size == 2) CHECK(rest[0].params.back() == whole[0].params.back());
    CHECK(furthest(rest[0].params.back(), whole[0].params.back()) <= 1e-5);
  }
}

TEST_CASE("ranks share an evaluation's batches, and each finds what one alone does", "[ranks]") {
  const TempDir f;
  RankedRun job(f / "run");
  // 44 samples: the last of 6 batches of 8 is short; with batches of 40 some ranks get none
  const int64_t batch = GENERATE(8, 40);
  const StopSignals stop;
  const auto found = [&](Communicator& rank) {
    Session session(job.graph, job.options);
    return evaluate_unless_stopped(stop, session, job.config.objective, *job.val, batch, rank).value();
  };
  const auto text = [](const Metrics& m) {  // some are NaN, because a class does not occur among the labels
    std::string out = cat(m.samples, ' ', m.details);
    for (const auto& [name, value] : m.values) out += cat(' ', name, ' ', value);
    return out;
  };
  const Metrics alone = found(one_rank());
  CHECK(alone.samples == kSamples);
  for (const int size : {2, 3, 4}) {
    on_ranks(size, [&](Communicator& rank) {
      const Metrics m = found(rank);
      if (m.loss != alone.loss || text(m) != text(alone))
        throw std::runtime_error(cat("rank ", rank.rank(), " of ", size, " finds ", text(m), ", not ", text(alone)));
    });
  }
}
