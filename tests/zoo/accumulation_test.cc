// Tests that a step with one micro-batch of 32 rows equals a step with several smaller micro-batches, also with
// dropout: the masks, the loss and the weights are the same.
#include <unistd.h>

#include <catch2/catch_all.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "data/tensor_dataset.h"
#include "tests/graph/source_net.h"
#include "tests/support.h"
#include "trainer/loop/trainer.h"

using namespace amp;
using namespace amp::test;
namespace fs = std::filesystem;

namespace {

struct Run {
  double loss = 0;
  std::vector<float> weights;
};

Run one_step(int64_t batch, double ratio) {
  SourceNet net;
  const int x = net.input("x");
  const auto random = [](Dims dims, int seed) {
    HostTensor t = HostTensor::empty(DType::f32, dims);
    for (int64_t i = 0; i < t.numel(); ++i)
      t.as_mutable<float>()[i] = std::sin(static_cast<float>(i * 7 + seed)) * 0.5f;
    return t;
  };
  const int w = net.param("w", {6, 5}), v = net.param("v", {5, 3});
  net.g.values[static_cast<size_t>(w)].data = random({6, 5}, 1);
  net.g.values[static_cast<size_t>(v)].data = random({5, 3}, 2);
  const int h = net.node("Dropout", {net.node("MatMul", {x, w})}, {{"ratio", ratio}, {"site", int64_t{1}}});
  const int y = net.node("MatMul", {h, v});
  net.g.outputs = {y};

  const TempDir folder;
  Session session(net.g, {});
  TensorOptions t;
  t.batch_size = batch;
  InputSpec input;
  input.name = "x";
  input.dtype = DType::f32;
  HostTensor label = random({64, 3}, 9);  // the data have twice as many rows as a step, so that no step has all rows
  const auto data = make_tensor_dataset({{"x", random({64, 6}, 3)}, {"label", label}}, "data", {input}, t);
  TrainerConfig c;
  LossSpec loss;
  loss.kind = "mse";
  loss.outputs = {net.g.values[static_cast<size_t>(y)].name};
  c.objective.losses = loss;
  c.optimizer.rule = "sgd";
  c.schedule.kind = schedule_from_name("constant");
  c.schedule.lr = 0.1;
  c.schedule.total_steps = c.max_steps = 1;
  c.scale.mode = LossScaleConfig::Mode::off;
  c.sampler.order = Order::file;
  c.sampler.batch_size = batch;
  c.sampler.accumulation = 32 / batch;
  c.output_dir = folder.path.string();
  session.prepare(c.objective.losses, {{"x", random({batch, 6}, 3)}, {"label", random({batch, 3}, 9)}});
  const StopSignals stop;
  Trainer(session, *data, nullptr, stop, c).run();
  Run run;
  std::string line;
  std::ifstream metrics(folder / "metrics.jsonl");
  REQUIRE(std::getline(metrics, line));
  run.loss = nlohmann::json::parse(line)["loss"];
  for (const int p : {w, v}) {
    const HostTensor now = session.param(session.table().slot_of[static_cast<size_t>(p)]);
    run.weights.insert(run.weights.end(), now.as<float>(), now.as<float>() + now.numel());
  }
  return run;
}

}  // namespace

TEST_CASE("accumulation with dropout equals the large batch", "[accumulation]") {
  const Run whole = one_step(32, 0.4), without = one_step(32, 0);
  CHECK(std::abs(whole.loss - without.loss) > 1e-3);  // dropout has an effect
  for (const int64_t batch : {8, 4}) {
    const Run cut = one_step(batch, 0.4);
    CHECK(std::abs(cut.loss - whole.loss) <= 1e-6 * whole.loss);
    REQUIRE(cut.weights.size() == whole.weights.size());
    for (size_t i = 0; i < cut.weights.size(); ++i) REQUIRE(std::abs(cut.weights[i] - whole.weights[i]) <= 1e-6f);
  }
}
