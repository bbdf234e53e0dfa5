// Sharded optimizer state across ranks (ZeRO stage 1).
#include "backend/device.h"
#include "backend/update_rules.h"
#include "tests/trainer/ranked_run.h"

using namespace amp;
using namespace amp::test;

TEST_CASE("a sharded optimizer trains to the same bits, and keeps a share of the state", "[ranks]") {
  const test::TempDir folder;
  RankedRun plain(folder / "plain"), sharded(folder / "sharded");
  const std::string what = GENERATE(from_range(kSharded));
  INFO(what);
  for (RankedRun* const job : {&plain, &sharded}) {
    use_sharded(*job, what);
    if (what[1] == 'A') job->config.optimizer.swa_start = 4;
  }
  require_shared_alike(plain, sharded);
  OptimizerConfig alone = sharded.config.optimizer;
  alone.shards = 1;
  alone.sam_rho = 0;
  OptimizerConfig shared = alone;
  shared.shards = 4;
  CHECK(4 * shared.state_bytes({}, 1 << 20) == alone.state_bytes({}, 1 << 20));
}

TEST_CASE("ranks whose share of a small model is empty gather with the others", "[ranks]") {
  const test::TempDir folder;
  RankedRun plain(folder / "plain"), sharded(folder / "sharded");
  for (RankedRun* const job : {&plain, &sharded}) {
    // 18 elements: only two of four shards are not empty.
    job->graph = random_graph("input x\nparam w 6 3\ny = MatMul(x, w)\noutput y", "w 0.5");
    job->config.max_steps = 6;
    job->config.optimizer.ema_decays = {0.9};
  }
  sharded.config.optimizer.shards = 4;
  CHECK(sharded.run(4, 8)[3].params == plain.run(4, 8)[0].params);
}

TEST_CASE("each rank of a sharded optimizer has the moments of its elements alone", "[ranks]") {
  std::vector<float> params(64, 1), grads(64, 0.5f);
  UpdateSpec spec;
  spec.optimizer.ema_decays = {0.5};
  spec.optimizer.shards = 2;
  spec.lr = [](int64_t) { return 0.1; };
  spec.params = params.data();
  spec.grads = grads.data();
  spec.elements = 64;
  UpdateSpan span;
  span.count = 64;
  spec.spans = {span};
  spec.own = ElementRange{32, 32};
  bool asked = false;
  spec.gather = [&] { asked = true; };
  const std::unique_ptr<DeviceUpdate> update = cpu_device().make_update(spec);
  update->begin({1});
  update->apply();
  CHECK(asked);
  CHECK(std::count(params.begin(), params.end(), 1.0f) == 32);
  CHECK(params[31] == 1);
  CHECK(params[32] != 1);
  for (const auto which : {DeviceUpdate::Moment::m, DeviceUpdate::Moment::v, DeviceUpdate::Moment::ema})
    CHECK(update->moment(which)->numel() == 32);
}

TEST_CASE("rules that look at tensors as a whole are not sharded", "[ranks]") {
  for (const char* const rule : {"lamb", "lars", "muon", "adafactor", "schedule_free_adamw"}) {
    INFO(rule);
    OptimizerConfig c;
    c.rule = rule;
    c.settings = rule_settings(rule, {});
    CHECK_NOTHROW(c.validate());
    c.shards = 2;
    CHECK_THROWS_WITH(c.validate(), Catch::Matchers::ContainsSubstring("`shard_optimizer`: " + std::string(rule)));
  }
  OptimizerConfig narrow;
  narrow.state_bits = 8;
  narrow.shards = 2;
  CHECK_THROWS_WITH(narrow.validate(), Catch::Matchers::ContainsSubstring("`optim_bits` 8"));
}
