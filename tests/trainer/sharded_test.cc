// The optimizer's state shared out among the ranks (ZeRO stage 1).
#include "backend/device.h"
#include "backend/update_rules.h"
#include "tests/trainer/ranked_run.h"

using namespace amp;
using namespace amp::test;

TEST_CASE("a sharded optimizer trains to the same bits, and keeps a share of the state", "[ranks]") {
  const test::TempDir folder;
  RankedRun plain(folder / "plain"), sharded(folder / "sharded");
  const std::string what = GENERATE(as<std::string>(), "AdamW, clipping, EMA", "SGD with momentum, Lookahead",
                                    "SAM, SWA, fp16 with an overflow");
  INFO(what);
  for (RankedRun* const job : {&plain, &sharded}) {
    OptimizerConfig& o = job->config.optimizer;
    if (what[0] == 'A') {
      o.max_grad_norm = 0.1;
      o.ema_decays = {0.9};
    } else if (what[1] == 'G') {
      o.rule = "sgd";
      o.settings = rule_settings("sgd", {{"momentum", 0.9}});
      o.lookahead = 3;
    } else {
      o.sam_rho = 0.05;
      o.swa_start = 4;
      job->options.low = DType::f16;
      job->options.compute.assign(job->graph.nodes.size(), DType::f16);
      job->inject = [](int rank, int64_t step) { return rank == 1 && step == 3; };
    }
    job->config.save_steps = 5;
    job->config.save_total_limit = 0;
    job->config.max_steps = job->config.schedule.total_steps = 12;
  }
  const auto saved = [](const RankedRun& job, int64_t step) {
    return load_checkpoint(checkpoint_path(job.config.output_dir + "/checkpoints", step));
  };
  for (const int size : {2, 4}) {
    INFO(size << " ranks");
    sharded.config.optimizer.shards = size;
    const std::vector<Replica> want = plain.run(size, 8), have = sharded.run(size, 8);
    require_equal(have);
    CHECK(have[0].params == want[0].params);
    CHECK(have[0].norms == want[0].norms);
    for (const int64_t step : {10, 12}) {
      const Checkpoint a = saved(plain, step), b = saved(sharded, step);
      REQUIRE(a.tensors.size() == b.tensors.size());
      CHECK(a.tensors.count("param/w1") == 1);
      for (const auto& [name, t] : a.tensors) CHECK(b.tensors.at(name).to_doubles() == t.to_doubles());
    }
    const Checkpoint at = saved(sharded, 10);
    CHECK(sharded.run(size, 8, &at)[0].params.back() == want[0].params.back());
    CHECK(plain.run(size, 8, &at)[0].params.back() == want[0].params.back());
    std::filesystem::remove_all(plain.config.output_dir + "/checkpoints");
    std::filesystem::remove_all(sharded.config.output_dir + "/checkpoints");
  }
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
    job->graph = random_graph("input x\nparam w 6 3\ny = MatMul(x, w)\noutput y", "w 0.5");  // 18 elements: two shares
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
    CHECK_THROWS_WITH(c.validate(), Catch::Matchers::ContainsSubstring("--shard_optimizer: " + std::string(rule)));
  }
  OptimizerConfig narrow;
  narrow.state_bits = 8;
  narrow.shards = 2;
  CHECK_THROWS_WITH(narrow.validate(), Catch::Matchers::ContainsSubstring("--optim_bits 8"));
}
