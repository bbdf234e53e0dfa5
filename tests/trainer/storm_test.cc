// Long series of non-finite steps, 10,000 attempts each, through Trainer, Session, optimizer and scaler. The data cause
// the overflow, in fp16 products or in one parameter's gradient. After every step the state must equal that of a
// reference state machine, and a skipped step must leave weights, moments, EMA, running statistics and schedule
// bit-identical.
#include <omp.h>
#include <unistd.h>

#include <catch2/catch_all.hpp>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <random>

#include "data/tensor_dataset.h"
#include "small_run.h"
#include "tests/precision/text_graph.h"
#include "tests/support.h"
#include "trainer/compile/flat_views.h"
#include "trainer/loop/trainer.h"

using namespace amp;
using namespace amp::test;
namespace stdfs = std::filesystem;

namespace {

constexpr int64_t kSteps = 10000, kMicro = 3, kRows = 2;  // micro-batches per window, rows per micro-batch

// u affects only one parameter, w3, which stays 0 while u is 0.
const char* const kNet = R"(
    input x
    input u
    param w1 3 8
    param s 8 = 1
    param b 8 = 0
    param mean 8 = 0
    param var 8 = 1
    param w2 8 1
    param w3 1 = 0
    h = MatMul(x, w1)
    n = BatchNormalization{epsilon=0.1}(h, s, b, mean, var)
    a = Tanh(n)
    o = MatMul(a, w2)
    t = Mul(u, w3)
    y = Add(o, t)
    output y)";

enum class Where { everywhere, one_micro_batch, one_parameter };

struct Storm {
  Where where = Where::everywhere;
  int64_t micro = 0;                 // used if where == one_micro_batch
  std::function<bool(int64_t)> bad;  // whether the given attempted step has a bad gradient
  DType low = DType::f16;
};

std::function<bool(int64_t)> random_steps(double rate, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<char> bad;
  for (int64_t i = 0; i < kSteps; ++i) bad.push_back(static_cast<double>(random()) < rate * 4294967296.0);
  return [bad](int64_t step) { return bad[static_cast<size_t>(step)] != 0; };
}

// Returns data in which window i belongs to attempted step i. leave_out: without the bad windows.
std::unique_ptr<Dataset> make_data(const Storm& storm, bool leave_out = false) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  std::vector<float> x, u, label;
  for (int64_t step = 0; step < kSteps; ++step) {
    const bool bad = storm.bad(step);
    for (int64_t row = 0; row < kMicro * kRows; ++row) {
      const bool here = bad && (storm.where == Where::everywhere || row / kRows == storm.micro);
      float v[3] = {normal(random), normal(random), normal(random)};
      const float y = random() % 2 ? 10.0f : -10.0f;  // the target cannot be learned: d loss / d y stays around 3
      if (bad && leave_out) continue;
      for (float& e : v) e = here && storm.where != Where::one_parameter ? (storm.low == DType::f16 ? 6e4f : 3e38f) : e;
      x.insert(x.end(), v, v + 3);
      u.push_back(bad && storm.where == Where::one_parameter ? 3e38f : 0.0f);
      label.push_back(y);
    }
  }
  const auto rows = static_cast<int64_t>(u.size());
  TensorOptions o;
  o.batch_size = kRows;
  return make_tensor_dataset({{"x", HostTensor::of<float>({rows, 3}, x)},
                              {"u", HostTensor::of<float>({rows, 1}, u)},
                              {"label", HostTensor::of<float>({rows, 1}, label)}},
                             "storm", {{"x", DType::f32, Dims{-1, 3}}, {"u", DType::f32, Dims{-1, 1}}}, o);
}

using Bytes = std::vector<char>;

struct Run {
  explicit Run(const Storm& storm, LossScaleConfig scale, bool leave_out = false)
      : graph(random_graph(kNet, "w1 0.8 w2 0.5")), data(make_data(storm, leave_out)) {
    for (const char* name : {"mean", "var"}) graph.values.at(static_cast<size_t>(graph.find(name))).trainable = false;
    OpList list = parse_op_list(R"({"version": 1, "extends": "O1", "rules": [{"node": "h", "precision": "low"},
                                    {"node": "t", "precision": "fp32"}, {"node": "y", "precision": "fp32"}]})",
                                "storm.json");
    const PrecisionPlan plan = decide(graph, list, storm.low);
    SessionOptions s;
    s.low = storm.low;
    s.batchnorm_train = true;
    for (const Decision& d : plan.nodes) s.compute.push_back(dtype_of(d.compute));
    session = std::make_unique<Session>(graph, s);
    config.objective.losses = LossSpec{"mse", {"y"}};
    config.optimizer.rule = "adamw";
    config.optimizer.ema_decays = {0.99};
    config.optimizer.weight_decay = 0.01;
    config.optimizer.max_grad_norm = 1;
    config.schedule.kind = "linear";
    config.schedule.lr = 1e-3;
    config.schedule.warmup_steps = 50;
    config.schedule.total_steps = kSteps;
    config.scale = scale;
    config.sampler.order = Order::file;
    config.sampler.batch_size = kRows;
    config.sampler.accumulation = kMicro;
    config.max_steps = leave_out ? data->size() / (kRows * kMicro) : kSteps;
    config.max_consecutive_skips = 0;
    config.output_dir = folder.path.string();
    omp_set_num_threads(1);  // too little work for several threads
    session->prepare(config.objective.losses, {{"x", HostTensor::zeros(DType::f32, {kRows, 3})},
                                               {"u", HostTensor::zeros(DType::f32, {kRows, 1})},
                                               {"label", HostTensor::zeros(DType::f32, {kRows, 1})}});
  }

  // Returns the bytes of everything that a step may change.
  Bytes state(const Trainer& t) const {
    Bytes out;
    const auto add = [&](const void* p, int64_t bytes) {
      const char* c = static_cast<const char*>(p);
      out.insert(out.end(), c, c + bytes);
    };
    for (const auto& [name, tensor] : t.engine().state()) add(tensor.data(), tensor.bytes());  // m, v, ema
    for (size_t slot = 0; slot < session->table().size(); ++slot) {
      const HostTensor p = session->param(static_cast<int>(slot));  // includes running statistics
      add(p.data(), p.bytes());
    }
    const int64_t steps = t.engine().applied_steps();
    add(&steps, sizeof steps);
    return out;
  }

  void go(const std::function<void(const StepResult&, const Trainer&)>& see) {
    const StopSignals stop;
    Trainer* self = nullptr;
    config.on_step = [&](const StepResult& r) { see(r, *self); };
    Trainer trainer(*session, *data, nullptr, stop, config);
    self = &trainer;
    const TrainResult r = trainer.run();
    REQUIRE(r.steps == config.max_steps);
    last = state(trainer);
  }

  SourceGraph graph;
  std::unique_ptr<Dataset> data;
  std::unique_ptr<Session> session;
  TrainerConfig config;
  TempDir folder;
  Bytes last;
};

// GradScaler as its documentation describes it, written with counters instead of LossScaler's branches.
struct Machine {
  LossScaleConfig c;
  float scale;
  int64_t clean = 0, skips_in_a_row = 0, applied = 0;
  explicit Machine(const LossScaleConfig& config)
      : c(config), scale(config.mode == LossScaleConfig::Mode::off ? 1.0f : static_cast<float>(config.init)) {}
  void step(bool bad) {
    skips_in_a_row = bad ? skips_in_a_row + 1 : 0;
    clean = bad ? 0 : clean + 1;
    applied += !bad;
    if (c.mode != LossScaleConfig::Mode::dynamic) return;
    if (bad) scale = std::max(static_cast<float>(scale * c.backoff_factor), static_cast<float>(c.min));
    if (!bad && clean % c.growth_interval == 0) {
      const double next = static_cast<double>(scale) * c.growth_factor;
      if (next <= c.max && std::isfinite(static_cast<float>(next))) scale = static_cast<float>(next);
    }
  }
};

double linear_lr(int64_t applied) {
  return applied < 50 ? 1e-3 * static_cast<double>(applied) / 50
                      : 1e-3 * static_cast<double>(kSteps - applied) / (kSteps - 50);
}

void weather(const Storm& storm, const LossScaleConfig& scale) {
  Run run(storm, scale);
  Machine want(scale);
  Bytes before;
  int64_t seen = 0, moved = 0, wrong = 0;
  run.go([&](const StepResult& r, const Trainer& t) {
    const bool bad = storm.bad(r.step);
    const float used = want.scale;
    const double lr = linear_lr(want.applied);
    want.step(bad);
    const Bytes now = run.state(t);
    if (bad && !before.empty()) wrong += now != before;  // a bad step must change no bit
    if (!bad && !before.empty()) moved += now != before;
    before = now;
    INFO("step " << r.step << (bad ? " bad" : "") << " scale " << r.scale.used << " norm " << r.grad_norm);
    REQUIRE(r.step == seen++);
    REQUIRE(r.skipped() == bad);
    REQUIRE(r.scale.used == used);
    REQUIRE(r.scale.next == want.scale);
    REQUIRE(r.scale.consecutive_skips == want.skips_in_a_row);
    REQUIRE(r.applied_steps == want.applied);
    REQUIRE(t.engine().applied_steps() == want.applied);
    REQUIRE(std::abs(r.lr - lr) <= 1e-12);
    const std::string first = first_nonfinite(run.session->layout(), run.session->host_grads().as<float>());
    REQUIRE(first.empty() == !bad);
    if (bad && storm.where == Where::one_parameter) REQUIRE(first == "w3");
  });
  CHECK(seen == kSteps);
  CHECK(wrong == 0);
  // The first applied step has learning rate 0 (start of the warm-up) and changes no weights. The others do.
  CHECK(moved >= want.applied - 2);
}

LossScaleConfig dynamic(double init = 32) {
  LossScaleConfig c;
  c.init = init;
  c.growth_interval = 50;
  c.max = 128;  // at this scale all gradients of the network are finite
  return c;
}

}  // namespace

TEST_CASE("10,000-step storms through the trainer equal a reference state machine, skipped steps change no bit",
          "[storm]") {
  Storm storm;
  SECTION("always") {
    storm.bad = [](int64_t) { return true; };
    weather(storm, dynamic());
  }
  SECTION("always, without a floor: the scale reaches 0 and the weights survive it") {
    storm.bad = [](int64_t) { return true; };
    LossScaleConfig c = dynamic();
    c.min = 0;
    weather(storm, c);
  }
  SECTION("1 % at random") {
    storm.bad = random_steps(0.01, 1);
    weather(storm, dynamic());
  }
  SECTION("10 % at random") {
    storm.bad = random_steps(0.1, 2);
    weather(storm, dynamic());
  }
  SECTION("50 % at random") {
    storm.bad = random_steps(0.5, 3);
    weather(storm, dynamic());
  }
  for (int64_t k = 0; k < kMicro; ++k) {
    DYNAMIC_SECTION("in micro-batch " << k << " only") {
      storm.where = Where::one_micro_batch;
      storm.micro = k;
      storm.bad = random_steps(0.2, 4);
      weather(storm, dynamic());
    }
  }
  SECTION("in one parameter only") {
    storm.where = Where::one_parameter;
    storm.bad = random_steps(0.2, 5);
    weather(storm, dynamic());
  }
  SECTION("bf16: no scaler, steps are skipped all the same") {
    storm.low = DType::bf16;
    storm.bad = random_steps(0.1, 6);
    LossScaleConfig c;
    c.mode = LossScaleConfig::Mode::off;
    weather(storm, c);
  }
}

TEST_CASE("a run with skipped steps ends with the bits of the run that never had them", "[storm]") {
  Storm storm;
  storm.bad = random_steps(0.3, 7);
  LossScaleConfig fixed;
  fixed.mode = LossScaleConfig::Mode::fixed;
  fixed.init = 64;
  Run stormy(storm, fixed), calm(storm, fixed, true);
  int64_t skipped = 0;
  stormy.go([&](const StepResult& r, const Trainer&) { skipped += r.skipped(); });
  calm.go([](const StepResult& r, const Trainer&) { REQUIRE_FALSE(r.skipped()); });
  CHECK(skipped > 2500);
  CHECK(calm.config.max_steps == kSteps - skipped);
  CHECK(stormy.last == calm.last);
}
