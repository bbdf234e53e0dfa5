// Data parallel training: replicas that are equal to one device with as large a batch, and to each other.
#include <algorithm>
#include <catch2/catch_all.hpp>
#include <filesystem>
#include <limits>
#include <thread>

#include "data/tensor_dataset.h"
#include "small_run.h"
#include "tests/support.h"
#include "trainer/trainer.h"

using namespace amp;
using namespace amp::test;
namespace stdfs = std::filesystem;

namespace {

// One thread a rank; what the first of them throws is thrown here.
void on_ranks(int size, const std::function<void(Collective&)>& body) {
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

constexpr int64_t kSamples = 44;  // no multiple of a global batch: the last ones are uneven, and some ranks get nothing

struct Replica {
  std::vector<double> losses, norms;
  std::vector<std::vector<double>> params;  // after every step
  std::vector<float> scales;
  std::vector<bool> skipped;
  std::vector<double> mean;  // a parameter of that name, in the end
  TrainResult result;
};

struct Job {
  SourceGraph graph = random_graph(kNet, "w1 0.5\nb1 0.1\nw2 0.5");
  std::unique_ptr<Dataset> train, val;
  SessionOptions options;
  TrainerConfig config;
  std::function<bool(int rank, int64_t step)> inject;

  explicit Job(const stdfs::path& folder) {
    TensorOptions t;
    t.batch_size = 2;
    std::vector<int64_t> labels;
    for (int64_t i = 0; i < kSamples; ++i) labels.push_back(i % 7 == 3 ? kIgnoreIndex : i * i % 3);  // uneven items
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
    stdfs::create_directories(folder);
  }

  // global: samples of a micro-batch, over all ranks.
  std::vector<Replica> run(int size, int64_t global, const Checkpoint* from = nullptr) {
    std::vector<Replica> out(static_cast<size_t>(size));
    const StopSignals stop;
    on_ranks(size, [&](Collective& rank) {
      Session session(graph, options);
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
        const float* const p = session.host_params().as<float>() + chunk.offset;
        if (chunk.name == "mean") mine.mean.assign(p, p + chunk.numel);
      }
    });
    return out;
  }
};

double furthest(const std::vector<double>& a, const std::vector<double>& b) {
  double d = a.size() == b.size() ? 0 : std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) d = std::max(d, std::abs(a[i] - b[i]));
  return d;
}

void require_equal(const std::vector<Replica>& ranks) {
  for (size_t r = 1; r < ranks.size(); ++r) {
    INFO("rank " << r);
    REQUIRE(ranks[r].params == ranks[0].params);  // bitwise
    REQUIRE(ranks[r].losses == ranks[0].losses);
    REQUIRE(ranks[r].scales == ranks[0].scales);
    REQUIRE(ranks[r].result.best_step == ranks[0].result.best_step);
  }
}

}  // namespace

TEST_CASE("collectives of threads", "[ranks]") {
  const int size = GENERATE(1, 2, 3, 4);
  const int64_t n = GENERATE(1, 5, 64, 1000);
  on_ranks(size, [&](Collective& rank) {
    const auto of = [&](int r, int64_t i) { return static_cast<float>((i * 37 + r * 101) % 97) * 0.37f - 11.0f; };
    std::vector<float> x(static_cast<size_t>(n));
    std::vector<double> top(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i) top[static_cast<size_t>(i)] = x[static_cast<size_t>(i)] = of(rank.rank(), i);
    Collective::Handle handle = rank.start_all_reduce(std::span(x), Reduction::sum);
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
      const Collective::Share s = rank.share(n, r);
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
                             [&](Collective& rank) {
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
  on_ranks(3, [&](Collective& rank) {
    for (const Reduction how : {Reduction::sum, Reduction::max}) {
      std::vector<float> x{rank.rank() == bad ? std::numeric_limits<float>::quiet_NaN() : 1.0f};
      rank.all_reduce(std::span(x), how);
      if (!std::isnan(x[0])) throw std::runtime_error("lost");
    }
  });
}

TEST_CASE("K ranks of B samples train like one of K B", "[ranks]") {
  const test::TempDir folder;
  Job job(folder / "run");
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
  Job job(folder / "run");
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

TEST_CASE("every rule of the update sees the gradients of all ranks", "[ranks]") {
  const test::TempDir folder;
  Job job(folder / "run");
  job.config.max_steps = 10;
  SECTION("SAM") { job.config.optimizer.sam_rho = 0.05; }
  SECTION("EMA") { job.config.optimizer.ema_decay = 0.9; }
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
}

// The mean of the input is the same number whoever shares its rows; at an epoch's end one of two ranks has none.
TEST_CASE("running statistics are averaged over the ranks by their samples", "[ranks]") {
  const test::TempDir folder;
  Job job(folder / "run");
  job.graph = random_graph(R"(
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
  for (const char* name : {"mean", "var"})
    job.graph.values.at(static_cast<size_t>(job.graph.find(name))).trainable = false;
  job.options.batchnorm_train = true;
  job.config.sampler.accumulation = 1;
  job.config.max_steps = 12;  // two epochs of six
  const std::vector<Replica> one = job.run(1, 8);
  REQUIRE(std::abs(one[0].mean.at(0)) > 1e-3);
  for (const int size : {2, 4}) {
    const std::vector<Replica> ranks = job.run(size, 8);
    require_equal(ranks);
    CHECK(furthest(ranks[0].mean, one[0].mean) <= 1e-6);
  }
}

TEST_CASE("a sharded optimizer trains to the same bits, and keeps a share of the state", "[ranks]") {
  const test::TempDir folder;
  Job plain(folder / "plain"), sharded(folder / "sharded");
  const std::string what = GENERATE(as<std::string>(), "AdamW, clipping, EMA", "SGD with momentum, Lookahead",
                                    "SAM, SWA, fp16 with an overflow");
  INFO(what);
  for (Job* const job : {&plain, &sharded}) {
    OptimizerConfig& o = job->config.optimizer;
    if (what[0] == 'A') {
      o.max_grad_norm = 0.1;
      o.ema_decay = 0.9;
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
  const auto saved = [](const Job& job, int64_t step) {
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
    stdfs::remove_all(plain.config.output_dir + "/checkpoints");
    stdfs::remove_all(sharded.config.output_dir + "/checkpoints");
  }
  OptimizerConfig alone = sharded.config.optimizer;
  alone.shards = 1;
  alone.sam_rho = 0;
  OptimizerConfig shared = alone;
  shared.shards = 4;
  CHECK(4 * shared.state_bytes({}, 1 << 20) == alone.state_bytes({}, 1 << 20));
}

TEST_CASE("each rank of a sharded optimizer has the moments of its elements alone", "[ranks]") {
  std::vector<float> params(64, 1), grads(64, 0.5f);
  UpdateSpec spec;
  spec.optimizer.ema_decay = 0.5;
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

TEST_CASE("a checkpoint goes on with another number of ranks", "[ranks]") {
  const test::TempDir folder;
  Job job(folder / "run");
  job.config.save_steps = 5;
  job.config.save_total_limit = 0;
  job.config.max_steps = 20;
  job.config.schedule.total_steps = 20;
  const std::vector<Replica> whole = job.run(2, 8);
  const Checkpoint at = load_checkpoint(checkpoint_path(job.config.output_dir + "/checkpoints", 10));
  Job other(folder / "other");
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
  Job job(f / "run");
  // 44 samples: of 6 batches of 8 the last is short; of 40 some ranks get none
  const int64_t batch = GENERATE(8, 40);
  const StopSignals stop;
  const auto found = [&](Collective& rank) {
    Session session(job.graph, job.options);
    return evaluate_unless(stop, session, job.config.objective, *job.val, batch, rank).value();
  };
  const auto text = [](const Metrics& m) {  // some are NaN: a class that no label has
    std::string out = cat(m.samples, ' ', m.details);
    for (const auto& [name, value] : m.values) out += cat(' ', name, ' ', value);
    return out;
  };
  const Metrics alone = found(one_rank());
  CHECK(alone.samples == kSamples);
  for (const int size : {2, 3, 4}) {
    on_ranks(size, [&](Collective& rank) {
      const Metrics m = found(rank);
      if (m.loss != alone.loss || text(m) != text(alone))
        throw std::runtime_error(cat("rank ", rank.rank(), " of ", size, " finds ", text(m), ", not ", text(alone)));
    });
  }
}
