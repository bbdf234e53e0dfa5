// Messages about skipped steps: the first non-finite value, and when a warning is printed.
#include <unistd.h>

#include <catch2/catch_all.hpp>
#include <filesystem>

#include "data/tensor_dataset.h"
#include "small_run.h"
#include "tests/support.h"
#include "trainer/compile/first_nonfinite.h"
#include "trainer/loop/skip_watch.h"
#include "trainer/loop/trainer.h"

using namespace amp;
using namespace amp::test;
using Catch::Matchers::ContainsSubstring;
namespace stdfs = std::filesystem;

namespace {

const char* const kBlock = R"(
    input x
    param wi 4 8 = 0.5
    param wo 8 4 = 0.25
    param wc 4 1 = 0.5
    up = MatMul(x, wi)
    act = Relu(up)
    down = MatMul(act, wo)
    y = MatMul(down, wc)
    output y)";

struct Job {
  SourceGraph graph;
  SessionOptions options;
  Losses loss = LossSpec{"mse", {"y"}};
  explicit Job(const std::string& list = "O2", const char* text = kBlock) : graph(random_graph(text, "")) {
    const PrecisionPlan plan = decide(graph, preset(list), DType::f16);
    options.low = plan.low;
    for (const Decision& d : plan.nodes) options.compute.push_back(dtype_of(d.compute));
  }
  std::string find(float x, float label, double seed) {
    Session session(graph, options);
    const Tensors batch = {{"x", HostTensor::of<float>({2, 4}, std::vector<float>(8, x))},
                           {"label", HostTensor::of<float>({2, 1}, {label, label})}};
    return first_nonfinite_value(session, loss, {batch}, {seed});
  }
};

StepScale step(bool applied, bool at_floor = false) {
  StepScale s;
  s.applied = applied;
  s.at_floor = at_floor;
  s.used = 512;
  return s;
}

}  // namespace

TEST_CASE("the value that stops being finite is named with its node", "[diverged]") {
  Job job;
  CHECK(job.find(1, 0, 1).empty());
  // up = 40,000 each is finite in fp16; down = 8 * 40,000 / 4 is not.
  CHECK(job.find(20000, 0, 1) ==
        "the first non-finite activation is the output of node 'down' (MatMul, #2, opset 17), stored as float16");
  CHECK_THAT(job.find(40000, 0, 1), ContainsSubstring("node 'up' (MatMul, #0"));
  // The forward pass is finite. The gradient of y, about 2 * 1000 (label) * 64 (loss scale), exceeds fp16.
  CHECK_THAT(job.find(0.1f, 1000, 64), ContainsSubstring("backward pass arises at"));
  CHECK(job.find(std::numeric_limits<float>::infinity(), 0, 1) == "the input 'x' is not finite");
  // In fp32 the same data are harmless.
  Job full("O0");
  CHECK(full.find(40000, 0, 1).empty());
}

TEST_CASE("infinities that a mask puts in are not blamed", "[diverged]") {
  Job job("pytorch", R"(
    input x
    param wi 4 4 = 0.5
    param wo 4 1 = 0.25
    const mask 4 = 0 0 0 -inf
    scores = MatMul(x, wi)
    masked = Add(scores, mask)
    p = Softmax(masked)
    y = MatMul(p, wo)
    output y)");
  CHECK(job.find(1, 0, 1).empty());
  CHECK_THAT(job.find(3e38f, 0, 1), ContainsSubstring("the first non-finite activation"));
}

TEST_CASE("a run that only skips ends with exit 8, the parameter and the activation", "[diverged]") {
  Job job;
  Session session(job.graph, job.options);
  const test::TempDir folder;
  TensorOptions t;
  t.batch_size = 2;
  const std::unique_ptr<Dataset> data =
      make_tensor_dataset({{"x", HostTensor::of<float>({4, 4}, std::vector<float>(16, 20000.0f))},
                           {"label", HostTensor::of<float>({4, 1}, {0, 0, 0, 0})}},
                          "data", {{"x", DType::f32, Dims{-1, 4}}}, t);
  TrainerConfig c;
  c.objective.losses = job.loss;
  c.schedule.total_steps = c.max_steps = 100;
  c.sampler.order = Order::file;
  c.sampler.batch_size = 2;
  c.max_consecutive_skips = 7;
  c.output_dir = folder.path.string();
  int64_t steps = 0;
  c.on_step = [&](const StepResult& r) {
    ++steps;
    CHECK(r.skipped());
    CHECK(r.applied_steps == 0);
  };
  session.prepare(job.loss,
                  {{"x", HostTensor::zeros(DType::f32, {2, 4})}, {"label", HostTensor::zeros(DType::f32, {2, 1})}});
  const StopSignals stop;
  Trainer trainer(session, *data, nullptr, stop, c);
  try {
    trainer.run();
    FAIL("the run went on");
  } catch (const Error& e) {
    CHECK(e.exit() == Exit::numerical);
    CHECK(e.id() == "E_DIVERGED");
    CHECK_THAT(e.fact(), ContainsSubstring("7 steps in a row") && ContainsSubstring("loss scale 512") &&
                             ContainsSubstring("the first non-finite gradient is that of 'wi'") &&
                             ContainsSubstring("the first non-finite activation is the output of node 'down' (MatMul"));
  }
  CHECK(steps == 7);
}

TEST_CASE("the first skips are a remark, later ones an alarm by rate", "[diverged]") {
  LossScaleConfig c;
  SkipWatch fresh(c, false);
  for (int i = 0; i < 7; ++i) CHECK(fresh.observe(step(false)).text.empty());
  const SkipWatch::Message found = fresh.observe(step(true));
  CHECK(found.text == "loss scale: 512 found after 7 skipped steps, as is usual");
  CHECK_FALSE(found.alarm);
  // 5 skips in 100 steps are tolerated, the 6th gives a warning. The next warnings come after 100, 200 and 400 steps at
  // the earliest.
  std::vector<int> alarms;
  for (int i = 0; i < 1000; ++i) {
    const SkipWatch::Message m = fresh.observe(step(i % 10 != 0));
    if (m.alarm) alarms.push_back(i);
    CHECK(m.alarm == !m.text.empty());
  }
  CHECK(alarms == std::vector<int>{50, 260, 670});
  SkipWatch rare(c, false);
  for (int i = 0; i < 2000; ++i) CHECK(rare.observe(step(i % 20 != 7)).text.empty());  // 5 skips in 100 steps

  // A resumed run and a run with a fixed scale do not search for a first finite scale.
  LossScaleConfig off;
  off.mode = LossScaleConfig::Mode::off;
  for (SkipWatch w : {SkipWatch(c, true), SkipWatch(off, false)}) {
    for (int i = 0; i < 5; ++i) CHECK(w.observe(step(false)).text.empty());
    CHECK(w.observe(step(false)).alarm);
  }
  // A run at the lower limit of the scale does not search, either.
  SkipWatch floor(c, false);
  for (int i = 0; i < 16; ++i) CHECK(floor.observe(step(false)).text.empty());
  for (int i = 0; i < 5; ++i) CHECK(floor.observe(step(false, true)).text.empty());
  CHECK(floor.observe(step(false, true)).alarm);
  // A scale that grows every 4 steps skips one step in 5. This gives no warning.
  c.growth_interval = 4;
  CHECK(SkipWatch(c, false).tolerated() == 40);
}
