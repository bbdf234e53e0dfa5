// The training loop on the emulated device: fp16 with dynamic loss scaling, dropout, accumulation, EMA. It matches the
// CPU's run, resumes bit for bit, and does not wait for the device between evaluations or checkpoints.
#include "trainer/loop/trainer.h"

#include <unistd.h>

#include <algorithm>
#include <catch2/catch_all.hpp>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "data/tensor_dataset.h"
#include "importer/surgery/dropout.h"
#include "precision/decide.h"
#include "precision/op_list.h"
#include "tests/emulator/emulated_device.h"
#include "tests/support.h"
#include "tests/zoo/golden.h"

using namespace amp;
using namespace amp::test;

namespace {

struct Folder : TempDir {
  Folder() { std::filesystem::create_directories(path / "checkpoints"); }
};

struct Run {
  Run(Device& device, int64_t steps) : golden(test_data("zoo/bert_cls_sdpa_dyn18")) {
    SourceGraph& g = golden.model.graph;
    SourceValue unread;  // has no gradient, so prepare() changes the arenas
    unread.name = "unread";
    unread.kind = SourceKind::parameter;
    unread.trainable = true;
    unread.dtype = DType::f32;
    unread.data = HostTensor::zeros(DType::f32, {5});
    g.values.push_back(unread);
    std::vector<std::string> lines;
    DropoutOptions d;
    d.ratio = 0.1;
    d.outputs = g.outputs;
    insert_dropout(g, d, lines);
    std::vector<NamedTensor> columns;
    std::vector<InputSpec> inputs;
    for (const auto& [name, t] : golden.batch) {
      columns.push_back({name, t});
      if (name == "label") continue;
      InputSpec i;
      i.name = name;
      i.dtype = t.dtype();
      inputs.push_back(i);
    }
    TensorOptions t;
    t.batch_size = 2;
    data = make_tensor_dataset(columns, "batch", inputs, t);
    SessionOptions o;
    o.device = &device;
    o.low = DType::f16;
    for (const Decision& decision : decide(g, load_op_list("O1"), DType::f16).nodes)
      o.compute.push_back(dtype_of(decision.compute));
    session = std::make_unique<Session>(g, o);
    config.objective.losses = golden.loss;
    config.optimizer.ema_decays = {0.9};
    config.optimizer.max_grad_norm = 1;
    config.optimizer.weight_decay = 0.01;
    config.schedule.lr = 0.003;
    config.schedule.total_steps = 12;
    config.max_steps = steps;
    config.scale.init = 65536;
    config.scale.growth_interval = 3;
    config.sampler.batch_size = 2;
    config.output_dir = folder.path.string();
    config.inject_overflow = [](int64_t step) { return step == 4; };
    config.on_step = [this](const StepResult& r) { results.push_back(r); };
  }
  void run(const Checkpoint* from = nullptr) {
    Sampler sampler(data->size(), data->lengths(), config.sampler);
    session->prepare(config.objective.losses, to_tensors(load_window(*data, sampler.next()).batches.at(0), nullptr));
    const StopSignals stop;
    Trainer trainer(*session, *data, nullptr, stop, config);
    if (from) trainer.resume(*from);
    trainer.run();
    ema = trainer.average(0);
  }

  Folder folder;
  Golden golden;
  std::unique_ptr<Dataset> data;
  std::unique_ptr<Session> session;
  TrainerConfig config;
  std::vector<StepResult> results;
  HostTensor ema;
};

// Sets the optimizer `rule`, and some further options that depend on the rule.
void choose_optimizer(OptimizerConfig& o, const std::string& rule) {
  o.rule = rule;
  o.settings = rule_settings(rule, {});
  o.ema_decays = {0.9, 0.5};
  if (rule == "adamw") {
    o.state_bits = 8;
    o.gradient_noise = 0.01;
  } else if (rule == "muon") {
    o.ema_decays.clear();
    o.swa_start = 2;
    o.ema_every = 2;
  }
}

bool same_bytes(const HostTensor& a, const HostTensor& b) {
  return a.bytes() == b.bytes() && std::memcmp(a.data(), b.data(), static_cast<size_t>(a.bytes())) == 0;
}

}  // namespace

TEST_CASE("a run on the emulated device follows the CPU's", "[cuda]") {
  const auto device = cuda::make_emulated_device();
  Run cpu(cpu_device(), 12), gpu(*device, 12);
  cpu.run();
  gpu.run();
  REQUIRE(gpu.results.size() == cpu.results.size());
  for (size_t i = 0; i < cpu.results.size(); ++i) {
    const StepResult &a = gpu.results[i], &b = cpu.results[i];
    INFO("step " << i);
    CHECK(a.step == b.step);
    CHECK(a.skipped() == b.skipped());
    CHECK(a.applied_steps == b.applied_steps);
    CHECK(a.scale.used == b.scale.used);
    CHECK(a.lr == b.lr);
    // Tolerance: an fp16 activation may round in the other direction, by a relative 2^-11.
    CHECK(a.loss == Catch::Approx(b.loss).epsilon(5e-3));
    if (!b.skipped()) CHECK(a.grad_norm == Catch::Approx(b.grad_norm).epsilon(2e-2));
  }
  CHECK(gpu.results[4].skipped());
}

TEST_CASE("a resumed run on the emulated device ends in the same bytes", "[cuda]") {
  const auto device = cuda::make_emulated_device();
  Run whole(*device, 8), half(*device, 5), rest(*device, 8);
  if (const std::string rule = GENERATE("", "adamw", "muon"); !rule.empty()) {
    INFO(rule);
    for (Run* r : {&whole, &half, &rest}) choose_optimizer(r->config.optimizer, rule);
  }
  whole.run();
  half.run();
  const Checkpoint c = find_latest(half.folder.path / "checkpoints").checkpoint;
  CHECK(c.step == 5);
  rest.run(&c);
  CHECK(same_bytes(rest.session->host_params(), whole.session->host_params()));
  CHECK(same_bytes(rest.ema, whole.ema));
  CHECK_FALSE(same_bytes(half.session->host_params(), whole.session->host_params()));
}

TEST_CASE("nothing waits for the device in a step, overflow or not", "[cuda]") {
  const auto device = cuda::make_emulated_device();
  Run r(*device, 12);
  if (const std::string rule = GENERATE("", "muon"); !rule.empty()) choose_optimizer(r.config.optimizer, rule);
  device->keep_events(true);
  const auto count = [&] {
    return static_cast<size_t>(std::count_if(device->events().begin(), device->events().end(),
                                             [](const cuda::Event& e) { return e.kind == cuda::Event::download; }));
  };
  Sampler sampler(r.data->size(), r.data->lengths(), r.config.sampler);
  const Tensors batch = to_tensors(load_window(*r.data, sampler.next()).batches.at(0), nullptr);
  r.session->prepare(r.config.objective.losses, batch);
  const Losses losses = r.config.objective.losses;
  StepEngine engine(*r.session, r.config.optimizer, r.config.schedule, r.config.scale, losses, 12);
  for (int64_t step = 0; step < 12; ++step) {
    device->events().clear();
    LossAccumulator counted(losses);
    counted.count(batch);
    engine.submit({step, &losses, {batch, batch}, {2, 2}, step == 4}, counted);
    CHECK(count() == 0);
    if (step == 0) continue;
    const size_t replays =
        static_cast<size_t>(std::count_if(device->events().begin(), device->events().end(),
                                          [](const cuda::Event& e) { return e.kind == cuda::Event::replay; }));
    CHECK(replays >= 2);  // from the second time on, micro-batches and update are replayed
  }
  for (int64_t step = 0; step < 12; ++step) CHECK(engine.take(false)->step == step);
}
