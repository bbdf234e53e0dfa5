// Loads models with PyTorch's reference results (golden.h) and compares losses, gradients and trajectories. Tolerances
// come from the fp32 noise that was measured with the reference.
#include "tests/zoo/golden.h"

#include <catch2/catch_all.hpp>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/safetensors.h"
#include "trainer/loop/micro_batches.h"
#include "trainer/loop/step_engine.h"

namespace amp::test {

namespace {

std::vector<double> numbers(const nlohmann::json& j) {
  std::vector<double> out;
  for (const auto& x : j) out.push_back(x.is_null() ? NAN : x.get<double>());
  return out;
}

GoldenGrad golden_grad(const nlohmann::json& p, const SafeTensors& file) {
  GoldenGrad g;
  g.name = p["onnx"];
  const HostTensor* t = file.find("grad/" + g.name);
  if (!t && p.contains("torch")) {  // a tied copy: the file has the sum, in PyTorch's layout
    t = file.find("grad_sum/" + p["torch"][0].get<std::string>());
    g.transposed = t && p["transform"] != "identity";
  }
  if (!t) return g;
  g.want.assign(t->as<float>(), t->as<float>() + t->numel());
  g.stride = p.value("stride", int64_t{1});
  double largest = p.value("grad_max", 0.0);
  for (const float x : g.want) largest = std::max(largest, std::abs(static_cast<double>(x)));
  const double noise = p.contains("fp32_noise") && p["fp32_noise"].is_number() ? p["fp32_noise"].get<double>() : 0;
  g.tolerance = std::max(1e-5, 10 * std::min(noise, 1e-2)) * largest + 1e-7;
  return g;
}

GoldenRun golden_run(const nlohmann::json& j) {
  GoldenRun r;
  r.lr = j["lr"];
  r.momentum = j.value("momentum", 0.0);
  r.weight_decay = j.value("weight_decay", 0.0);
  r.losses = numbers(j["losses"]);
  const std::vector<double> exact = numbers(j["losses_fp64"]);
  for (size_t i = 0; i < r.losses.size(); ++i)
    r.tolerance.push_back(std::max(1e-4, 10 * std::abs(r.losses[i] - exact[i])));
  return r;
}

SessionOptions options(const Golden& g, DType type, Device& device = cpu_device()) {
  SessionOptions o;
  o.device = &device;
  o.batchnorm_train = g.batch_statistics;
  o.float_type = type;
  o.decay_exclude = DecayExclude::none;
  return o;
}

// Returns the largest error divided by the tolerance. A value above 1 is a failure.
double excess(const GoldenGrad& g, const HostTensor& have, std::string& text) {
  const std::vector<double> x = have.to_doubles();
  double worst = 0;
  for (size_t i = 0; i < g.want.size(); ++i) {
    size_t at = i * static_cast<size_t>(g.stride);
    if (g.transposed) {
      const size_t rows = static_cast<size_t>(have.dims()[0]);  // the wanted tensor has the shape (cols, rows)
      at = i % rows * static_cast<size_t>(have.dims()[1]) + i / rows;
    }
    const double e = std::abs(x.at(at) - g.want[i]) / g.tolerance;
    if (!(e <= worst)) {
      worst = std::isnan(e) ? INFINITY : e;
      text = cat("element ", at, " is ", x[at], ", want ", g.want[i], ", allowed ", g.tolerance);
    }
  }
  return worst;
}

}  // namespace

Golden::Golden(const std::filesystem::path& dir) : name(dir.filename().string()) {
  nlohmann::json ref;
  std::ifstream(dir / "ref.json") >> ref;
  ImportOptions o;
  for (const auto& n : ref["frozen_onnx"]) o.freeze.push_back(n.get<std::string>());
  for (const auto& t : ref["tied"]) o.tie_weights_auto = o.tie_weights_auto && !t.value("untied", false);
  // The reference of one entry has one weight for the tensors that the exporter merged.
  o.split_merged = ref.value("notes", "").find("merged") == std::string::npos;
  batch_statistics = ref["batchnorm"].get<std::string>().find("batch") != std::string::npos;
  o.batchnorm_train = batch_statistics;
  model = import_model((dir / "model.onnx").string(), o);
  for (NamedTensor& t : read_safetensors((dir / "batch.safetensors").string()).tensors)
    batch[t.name] = std::move(t.tensor);
  loss.kind = ref["loss_kind"];
  const auto outputs = ref["outputs"].get<std::vector<std::string>>();
  loss.outputs = loss.kind == "qa_span" ? outputs : std::vector<std::string>{outputs.at(0)};
  loss_fp32 = ref["loss"];
  loss_fp64 = ref["loss_fp64"];
  const SafeTensors file = read_safetensors((dir / "ref.safetensors").string());
  for (const auto& p : ref["params"]) grads.push_back(golden_grad(p, file));
  for (const char* method : {"sgd", "adamw"}) runs[method] = golden_run(ref["trajectories"][method]);
}

std::vector<double> seeds_of(const Golden& g) {
  const std::vector<double> items = count_items(g.loss, g.batch.at("label"));
  std::vector<double> seeds;
  for (const double n : items) seeds.push_back((items.size() == 2 ? 0.5 : 1.0) / n);
  return seeds;
}

double loss_of(const Golden& g, const std::vector<double>& sums) {
  const std::vector<double> seeds = seeds_of(g);
  double loss = 0;
  for (size_t i = 0; i < sums.size(); ++i) loss += sums[i] * seeds.at(i);
  return loss;
}

double run_gradients(Session& session, const Golden& g) {
  return loss_of(g, run_micro_batch(session, g.loss, g.batch, seeds_of(g), false));
}

void check_loss(const Golden& g) {
  Session narrow(g.model.graph, options(g, DType::f32)), wide(g.model.graph, options(g, DType::f64));
  const double fp32 = run_gradients(narrow, g), fp64 = run_gradients(wide, g);
  CHECK(std::abs(fp32 - g.loss_fp32) <= 1e-6 * std::abs(g.loss_fp32));
  CHECK(std::abs(fp64 - g.loss_fp64) <= 1e-8 * std::abs(g.loss_fp64));
  CHECK(std::abs(loss_of(g, narrow.eval_micro_batch(g.loss, g.batch)) - fp32) <= 1e-6 * std::abs(fp32));
}

void check_gradients(const Golden& g, Device& device) {
  Session session(g.model.graph, options(g, DType::f32, device));
  run_gradients(session, g);
  size_t compared = 0, caught = 0;
  for (const GoldenGrad& want : g.grads) {
    INFO("gradient of '" << want.name << "'");
    const int v = g.model.graph.find(want.name);
    REQUIRE(v >= 0);
    const int slot = session.table().slot_of[static_cast<size_t>(v)];
    if (want.want.empty()) {
      CHECK((slot < 0 || !session.has_grad(slot)));
      continue;
    }
    REQUIRE(slot >= 0);
    const SourceValue& value = g.model.graph.values[static_cast<size_t>(v)];
    GoldenGrad w = want;
    w.transposed = want.transposed != value.tied_transposed;  // the slot has the master's layout
    const HostTensor have =
        session.has_grad(slot) ? session.grad(slot) : HostTensor::zeros(DType::f32, value.data.dims());
    std::string text;
    const double e = excess(w, have, text);
    INFO(text);
    CHECK(e <= 1);
    ++compared;
    for (float& x : w.want) x *= 1.01f;
    caught += excess(w, have, text) > 1;
  }
  CHECK(compared > 0);
  CHECK(2 * caught > compared);  // an error of 1 % is detected, except in noise (biases of attention keys)
}

void check_trajectory(const Golden& g, const std::string& method, Device& device) {
  const GoldenRun& run = g.runs.at(method);
  Session session(g.model.graph, options(g, DType::f32, device));
  session.prepare(g.loss, g.batch);
  OptimizerConfig config;
  config.rule = update_rule_from_name(method);
  config.settings.momentum = run.momentum;
  config.weight_decay = run.weight_decay;
  ScheduleConfig schedule;
  schedule.kind = "constant";
  schedule.lr = run.lr;
  schedule.total_steps = static_cast<int64_t>(run.losses.size());
  LossScaleConfig scale;
  scale.mode = LossScaleConfig::Mode::off;
  const Losses losses = g.loss;
  StepEngine engine(session, config, schedule, scale, losses, schedule.total_steps);
  for (size_t step = 0; step < run.losses.size(); ++step) {
    // The last loss is computed by an evaluation after the last update. If the reference uses batch statistics, it is
    // the loss of one more step, because an evaluation would use running statistics.
    const bool evaluated = step + 1 == run.losses.size() && !g.batch_statistics;
    double loss = 0;
    if (evaluated) {
      loss = loss_of(g, session.eval_micro_batch(g.loss, g.batch));
    } else {
      LossAccumulator counted(losses);
      counted.count(g.batch);
      engine.submit({static_cast<int64_t>(step), &losses, {g.batch}, {1}, false}, counted);
      const std::optional<StepResult> r = engine.take(true);
      REQUIRE(r.has_value());
      REQUIRE_FALSE(r->skipped());
      loss = r->loss;
    }
    INFO(method << " step " << step << ": loss " << loss << ", PyTorch's " << run.losses[step] << ", allowed "
                << run.tolerance[step]);
    CHECK(std::abs(loss - run.losses[step]) <= run.tolerance[step]);
  }
}

}  // namespace amp::test
