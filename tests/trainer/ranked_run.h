// Runs of several ranks in one process, with the results of each rank.
#pragma once

#include <algorithm>
#include <catch2/catch_all.hpp>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "data/tensor_dataset.h"
#include "tests/support.h"
#include "tests/trainer/small_run.h"
#include "trainer/loop/trainer.h"

namespace amp::test {

// Runs one thread per rank and rethrows the first exception.
inline void on_ranks(int size, const std::function<void(Communicator&)>& body) {
  ThreadGroup group(size);
  std::vector<std::thread> threads;
  std::exception_ptr error;
  std::mutex mutex;
  for (int r = 0; r < size; ++r) {
    threads.emplace_back([&, r] {
      try {
        body(group.rank(r));
      } catch (const std::exception& e) {
        const std::lock_guard lock(mutex);
        if (!error) error = std::current_exception();
        group.fail(cat("rank ", r, ": ", e.what()));
      }
    });
  }
  for (std::thread& t : threads) t.join();
  if (error) std::rethrow_exception(error);
}

const char* const kNet = R"(
    input x
    param w1 6 16
    param b1 16
    param w2 16 3
    p = MatMul(x, w1)
    h = Add(p, b1)
    a = Tanh(h)
    y = MatMul(a, w2)
    output y)";

constexpr int64_t kSamples =
    44;  // not a multiple of a global batch: the last ones are uneven, and some ranks get no samples

struct Replica {
  std::vector<double> losses, norms;
  std::vector<std::vector<double>> params;  // after every step
  std::vector<float> scales;
  std::vector<bool> skipped;
  std::vector<double> mean;  // final value of the parameter "mean"
  TrainResult result;
};

// Trains small networks on little data, with ranks that are threads.
struct RankedRun {
  SourceGraph graph = random_graph(kNet, "w1 0.5\nb1 0.1\nw2 0.5");
  std::unique_ptr<Dataset> train, val;
  SessionOptions options;
  TrainerConfig config;
  std::function<bool(int rank, int64_t step)> inject;
  std::function<std::unique_ptr<Device>()> device;  // creates a device per rank; empty: the CPU

  explicit RankedRun(const std::filesystem::path& folder) {
    TensorOptions t;
    t.batch_size = 2;
    std::vector<int64_t> labels;
    // Ranks get different numbers of labels.
    for (int64_t i = 0; i < kSamples; ++i) labels.push_back(i % 7 == 3 ? kIgnoreIndex : i * i % 3);
    const auto data = [&](uint64_t seed) {
      return make_tensor_dataset(
          {{"x", normal({kSamples, 6}, 1, seed)}, {"label", HostTensor::of<int64_t>({kSamples}, labels)}}, "data",
          {{"x", DType::f32, Dims{-1, 6}}}, t);
    };
    train = data(1);
    val = data(2);
    config.objective.losses = LossSpec{"cross_entropy", {"y"}};
    config.objective.task = Task::classification;
    config.schedule.total_steps = config.max_steps = 50;
    config.schedule.lr = 0.01;
    config.sampler.accumulation = 2;
    config.best_metric = "loss";
    config.output_dir = folder.string();
    std::filesystem::create_directories(folder);
  }

  void use_batch_norm() {
    graph = random_graph(R"(
      input x
      param s 6 = 1
      param b 6 = 0
      param mean 6 = 0
      param var 6 = 1
      param w 6 3
      n = BatchNormalization(x, s, b, mean, var)
      y = MatMul(n, w)
      output y)",
                         "w 0.5");
    for (const char* name : {"mean", "var"}) graph.values.at(static_cast<size_t>(graph.find(name))).trainable = false;
    options.batchnorm_train = true;
    config.sampler.accumulation = 1;
    config.max_steps = 12;  // two epochs of six steps
  }

  // Trains on `size` ranks. global: samples per micro-batch, over all ranks.
  std::vector<Replica> run(int size, int64_t global, const Checkpoint* from = nullptr) {
    std::vector<Replica> out(static_cast<size_t>(size));
    const StopSignals stop;
    on_ranks(size, [&](Communicator& rank) {
      const std::unique_ptr<Device> own = device ? device() : nullptr;
      SessionOptions o = options;
      if (own) o.device = own.get();
      Session session(graph, o);
      session.prepare(config.objective.losses,
                      {{"x", HostTensor::zeros(DType::f32, {2, 6})}, {"label", HostTensor::zeros(DType::i64, {2})}});
      TrainerConfig c = config;
      Replica& mine = out[static_cast<size_t>(rank.rank())];
      c.ranks = &rank;
      c.sampler.batch_size = global / size;
      c.sampler.ranks = size;
      c.sampler.rank = rank.rank();
      if (inject) c.inject_overflow = [&, r = rank.rank()](int64_t step) { return inject(r, step); };
      c.on_step = [&](const StepResult& s) {
        mine.losses.push_back(s.loss);
        mine.norms.push_back(s.grad_norm);
        mine.params.push_back(session.host_params().to_doubles());
        mine.scales.push_back(s.scale.next);
        mine.skipped.push_back(s.skipped());
      };
      Trainer trainer(session, *train, val.get(), stop, c);
      if (from) trainer.resume(*from);
      mine.result = trainer.run();
      for (const Chunk& chunk : session.layout().chunks()) {
        const HostTensor params = session.host_params();
        const float* const p = params.as<float>() + chunk.offset;
        if (chunk.name == "mean") mine.mean.assign(p, p + chunk.numel);
      }
    });
    return out;
  }
};

inline double furthest(const std::vector<double>& a, const std::vector<double>& b) {
  double d = a.size() == b.size() ? 0 : std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) d = std::max(d, std::abs(a[i] - b[i]));
  return d;
}

inline void require_equal(const std::vector<Replica>& ranks) {
  for (size_t r = 1; r < ranks.size(); ++r) {
    INFO("rank " << r);
    REQUIRE(ranks[r].params == ranks[0].params);  // bitwise
    REQUIRE(ranks[r].losses == ranks[0].losses);
    REQUIRE(ranks[r].scales == ranks[0].scales);
    REQUIRE(ranks[r].result.best_step == ranks[0].result.best_step);
  }
}

// Two runs that skip all of their steps would be equal, too.
inline void require_every_step_applied(const Replica& r) {
  for (size_t s = 0; s < r.params.size(); ++s) {
    INFO("step " << s);
    CHECK_FALSE(r.skipped[s]);
    if (s > 0) CHECK(r.params[s] != r.params[s - 1]);
  }
}

// Checks that all ranks skip a step in which one rank overflows. In fp16, this happens in two of twelve steps.
inline void require_skipped_together(RankedRun& job) {
  job.config.max_steps = 12;
  job.config.scale.init = 1024;
  job.inject = [](int rank, int64_t step) { return rank == 1 && (step == 3 || step == 7); };
  job.options.low = DType::f16;
  job.options.compute.assign(job.graph.nodes.size(), DType::f16);
  const std::vector<Replica> ranks = job.run(2, 8);
  require_equal(ranks);
  for (const Replica& r : ranks) {
    REQUIRE(r.skipped.size() == 12);
    for (size_t s = 0; s < r.skipped.size(); ++s) CHECK(r.skipped[s] == (s == 3 || s == 7));
    CHECK(r.params[3] == r.params[2]);
    CHECK(r.scales[3] == r.scales[2] / 2);
  }
}

// Names of optimizers with much state, for GENERATE.
inline const std::vector<std::string> kSharded{"AdamW, clipping, averages", "SGD with momentum, Lookahead",
                                               "SAM, fp16 with an overflow"};

// Sets up an optimizer of kSharded. A test's two runs differ only in folders and sharding; the second one is sharded.
inline void use_sharded(RankedRun& job, const std::string& what) {
  OptimizerConfig& o = job.config.optimizer;
  if (what[0] == 'A') {
    o.max_grad_norm = 0.1;
    o.ema_decays = {0.9, 0.5};
  } else if (what[1] == 'G') {
    o.rule = "sgd";
    o.settings = rule_settings("sgd", {{"momentum", 0.9}});
    o.lookahead = 3;
  } else {
    o.sam_rho = 0.05;
    job.options.low = DType::f16;
    job.options.compute.assign(job.graph.nodes.size(), DType::f16);
    job.inject = [](int rank, int64_t step) { return rank == 1 && step == 3; };
  }
  job.config.save_steps = 5;
  job.config.save_total_limit = 0;
  job.config.max_steps = job.config.schedule.total_steps = 12;
}

// Checks that weights, norms, checkpoints and resumed runs are bit-identical on 2 and 4 ranks.
inline void require_shared_alike(RankedRun& plain, RankedRun& sharded) {
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
    CHECK(std::count(want[0].skipped.begin(), want[0].skipped.end(), true) == (plain.inject ? 1 : 0));
    CHECK(want[0].params.back() != want[0].params.front());
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
}

}  // namespace amp::test
