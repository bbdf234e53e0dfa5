// Local SGD: ranks take independent steps between averages of their weights, against torch (local_sgd.json, made by
// make_local_sgd.py).
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/trainer/ranked_run.h"

using namespace amp;
using namespace amp::test;

namespace {

// A run with the net, the data and the order of samples of the golden run.
struct LocalRun : RankedRun {
  nlohmann::json golden;

  explicit LocalRun(const std::filesystem::path& folder) : RankedRun(folder) {
    std::ifstream in(test_data("trainer/local_sgd.json"));
    golden = nlohmann::json::parse(in);
    const auto floats = [](const nlohmann::json& j) {
      const auto wide = j.get<std::vector<double>>();
      return std::vector<float>(wide.begin(), wide.end());
    };
    for (SourceValue& v : graph.values) {
      if (golden["start"].contains(v.name))
        v.data = HostTensor::of<float>(v.data.dims(), floats(golden["start"][v.name]));
    }
    const auto labels = golden["label"].get<std::vector<int64_t>>();
    const auto n = static_cast<int64_t>(labels.size());
    TensorOptions t;
    t.batch_size = 4;
    train = make_tensor_dataset(
        {{"x", HostTensor::of<float>({n, 6}, floats(golden["x"]))}, {"label", HostTensor::of<int64_t>({n}, labels)}},
        "data", {{"x", DType::f32, Dims{-1, 6}}}, t);
    config.sampler.order = Order::file;
    config.sampler.accumulation = 1;
    config.sync_every = 2;
    config.max_steps = config.schedule.total_steps = 15;
    config.schedule.kind = "constant";
    config.optimizer.ema_decays = {0.9};
  }
  void use(const std::string& name) {
    OptimizerConfig& o = config.optimizer;
    const bool sgd = name == "sgd_momentum";
    o.rule = sgd ? "sgd" : "adamw";
    o.settings = sgd ? rule_settings("sgd", {{"momentum", 0.9}}) : rule_settings("adamw", {});
    o.weight_decay = sgd ? 0 : 0.1;
    o.max_grad_norm = name == "adamw_clip" ? 0.5 : 0;
    config.schedule.lr = sgd ? 0.1 : 0.02;
  }
};

Checkpoint saved(const RankedRun& job, int64_t step) {
  return load_checkpoint(checkpoint_path(job.config.output_dir + "/checkpoints", step));
}

}  // namespace

TEST_CASE("ranks that step by themselves between averages train as torch's do", "[ranks][local]") {
  const TempDir folder;
  LocalRun job(folder / "run");
  const std::string name = GENERATE("sgd_momentum", "adamw", "adamw_clip");
  INFO(name);
  job.use(name);
  const std::vector<Replica> ranks = job.run(2, 8);
  const nlohmann::json& want = job.golden["runs"][name];
  // The golden run is in fp64. 15 steps in fp32 add 15 roundings of weights below 4 (2^-22 each).
  const auto losses = want["losses"].get<std::vector<double>>();
  CHECK(furthest(ranks[0].losses, losses) <= 1e-5);
  CHECK(ranks[0].losses == ranks[1].losses);
  CHECK(ranks[0].params[0] != ranks[1].params[0]);  // each rank took its own steps, not averaged yet
  CHECK(ranks[0].params.back() != ranks[0].params[13]);
  const Checkpoint end = saved(job, 15);
  for (const auto& [parameter, values] : want["params"].items()) {
    INFO(parameter);
    CHECK(furthest(end.tensors.at("param/" + parameter).to_doubles(), values.get<std::vector<double>>()) <= 1e-5);
    CHECK(furthest(end.tensors.at("ema/" + parameter).to_doubles(),
                   want["ema"][parameter].get<std::vector<double>>()) <= 1e-5);
  }
  CHECK(ranks[0].result.last->loss == ranks[1].result.last->loss);
  const std::vector<Replica> again = job.run(2, 8);
  CHECK(again[1].params == ranks[1].params);
}

// In the first accumulation step both ranks have three items. The mean of their two SGD steps therefore equals the step
// with the mean of all items.
TEST_CASE("of one local step the average is the ordinary step", "[ranks][local]") {
  const TempDir folder;
  LocalRun job(folder / "run"), plain(folder / "plain");
  for (LocalRun* const r : {&job, &plain}) {
    r->use("sgd_momentum");
    r->config.max_steps = 1;
  }
  plain.config.sync_every = 1;
  const std::vector<Replica> local = job.run(2, 8);
  require_equal(plain.run(2, 8));
  CHECK(local[0].params == local[1].params);  // equal, because the weights were averaged
  for (const char* name : {"param/w1", "param/b1", "param/w2", "m/w2"}) {
    const std::string own = std::string(name);
    const bool moment = own[0] == 'm';  // stored per rank
    const double d = furthest(saved(job, 1).tensors.at(own).to_doubles(), saved(plain, 1).tensors.at(own).to_doubles());
    INFO(own << ' ' << d);
    CHECK((moment ? d > 1e-4 : d <= 1e-6));
  }
}

TEST_CASE("local steps go on from a checkpoint with each rank's own moments", "[ranks][local]") {
  const TempDir folder;
  LocalRun job(folder / "run"), rest(folder / "rest");
  for (LocalRun* const r : {&job, &rest}) r->use("adamw");
  job.config.save_steps = 2;
  job.config.save_total_limit = 0;
  const std::vector<Replica> whole = job.run(2, 8);
  const Checkpoint at = saved(job, 8);
  REQUIRE(at.tensors.count("m@1/w1") == 1);
  CHECK(at.tensors.at("m@1/w1").to_doubles() != at.tensors.at("m/w1").to_doubles());
  const std::vector<Replica> resumed = rest.run(2, 8, &at);
  REQUIRE(resumed[0].losses.size() == 7);
  for (size_t r = 0; r < 2; ++r) CHECK(resumed[r].params.back() == whole[r].params.back());
  CHECK(saved(rest, 15).tensors.at("param/w1").to_doubles() == saved(job, 15).tensors.at("param/w1").to_doubles());
  // A run with another number of ranks has other results, but its loss falls, too. The loss began at about 2.
  const std::vector<Replica> other = rest.run(4, 8, &at);
  CHECK(other[0].losses.back() < 1.5);
  CHECK(other[3].losses == other[0].losses);
}

TEST_CASE("an overflow in a rank's own step is everybody's: all skip", "[ranks][local]") {
  const TempDir folder;
  LocalRun job(folder / "run");
  job.use("adamw");
  job.config.scale.init = 1024;
  job.options.low = DType::f16;
  job.options.compute.assign(job.graph.nodes.size(), DType::f16);
  job.inject = [](int rank, int64_t step) { return rank == 1 && step == 6; };
  const std::vector<Replica> ranks = job.run(2, 8);
  for (const Replica& r : ranks) {
    for (size_t s = 0; s < r.skipped.size(); ++s) CHECK(r.skipped[s] == (s == 6));
    CHECK(r.scales[6] == r.scales[5] / 2);
    CHECK(r.scales == ranks[0].scales);
  }
}

TEST_CASE("running statistics of local steps are averaged with the weights", "[ranks][local]") {
  const TempDir folder;
  RankedRun job(folder / "run");
  job.use_batch_norm();
  job.config.sync_every = 3;
  const std::vector<Replica> two = job.run(2, 8), one = job.run(1, 8);
  CHECK(two[0].mean == two[1].mean);
  // The averaged statistic must be near that of one rank. They differ, because the last rows of an epoch are divided
  // unevenly.
  CHECK(furthest(two[0].mean, one[0].mean) <= 0.1);
  CHECK(std::abs(one[0].mean[0]) > 1e-3);
}
