// Tests running statistics of BatchNormalization with batchnorm_train. Only applied steps update them, as in PyTorch
// and in the ONNX operator. Checkpoints, evaluation and the exported file use them.
#include <onnx/defs/parser.h>
#include <unistd.h>

#include <catch2/catch_all.hpp>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/safetensors.h"
#include "data/tensor_dataset.h"
#include "importer/write/export.h"
#include "tests/support.h"
#include "trainer/loop/trainer.h"
#include "trainer/tasks/task.h"

using namespace amp;
namespace fs = std::filesystem;

namespace {

const std::string kFolder = test::test_data("statistics/");
constexpr int64_t kSkipped = 1;
const std::vector<std::string> kStatistics = {"bn1.running_mean", "bn1.running_var", "shared.running_mean",
                                              "shared.running_var"};

struct Job {
  explicit Job(int64_t steps, DType low = DType::f32) {
    ImportOptions o;
    o.batchnorm_train = true;
    model = import_model(kFolder + "model.onnx", o);
    const SafeTensors file = read_safetensors(kFolder + "batch.safetensors");
    TensorOptions t;
    t.batch_size = 4;
    InputSpec x;
    x.name = "x";
    x.dtype = DType::f32;
    x.dims = Dims{-1, 2, 6, 6};
    data = make_tensor_dataset(file.tensors, "batch", {x}, t);
    SessionOptions s;
    s.batchnorm_train = true;
    if (is_low(low)) {  // everything in 16 bits, including norms
      s.low = low;
      s.compute.assign(model.graph.nodes.size(), low);
    }
    session = std::make_unique<Session>(model.graph, s);
    config.objective.losses = LossSpec{"cross_entropy", {"logits"}};
    config.optimizer.rule = "sgd";
    config.schedule.kind = schedule_from_name("constant");
    config.schedule.lr = 0.05;
    config.schedule.total_steps = config.max_steps = steps;
    config.scale.mode = LossScaleConfig::Mode::off;
    config.sampler.order = Order::file;
    config.sampler.batch_size = 4;
    config.sampler.accumulation = 2;
    config.output_dir = folder.path.string();
    config.inject_overflow = [](int64_t step) { return step == kSkipped; };
  }

  void run(const Checkpoint* from = nullptr) {
    session->prepare(config.objective.losses, {{"x", HostTensor::zeros(DType::f32, {4, 2, 6, 6})},
                                               {"label", HostTensor::zeros(DType::i64, {4})}});
    const StopSignals stop;
    Trainer trainer(*session, *data, nullptr, stop, config);
    if (from) trainer.resume(*from);
    trainer.run();
  }

  int slot(const std::string& name) const {
    return session->table().slot_of.at(static_cast<size_t>(model.graph.find(name)));
  }
  std::vector<float> statistic(const std::string& name) const {
    const HostTensor t = session->param(slot(name));
    return {t.as<float>(), t.as<float>() + t.numel()};
  }

  Imported model;
  std::unique_ptr<Dataset> data;
  std::unique_ptr<Session> session;
  TrainerConfig config;
  test::TempDir folder;
};

void check_close(const std::vector<float>& got, const std::vector<float>& want, double tolerance) {
  REQUIRE(got.size() == want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    INFO("element " << i << ": got " << got[i] << ", want " << want[i]);
    REQUIRE(std::abs(got[i] - want[i]) <= tolerance * (1 + std::abs(want[i])));
  }
}

}  // namespace

TEST_CASE("running statistics move as PyTorch's and the ONNX operator's", "[statistics]") {
  const SafeTensors golden = read_safetensors(kFolder + "golden.safetensors");
  for (int64_t steps = 1; steps <= 4; ++steps) {
    Job job(steps);
    job.run();
    for (const std::string& name : kStatistics) {
      INFO(name << " after " << steps << " steps");
      const HostTensor* want = golden.find(cat(steps - 1, "/", name));
      REQUIRE(want);
      check_close(job.statistic(name), floats(*want), 2e-5);
    }
  }
}

TEST_CASE("a skipped step leaves running statistics bit-identical", "[statistics]") {
  Job before(kSkipped), after(kSkipped + 1), applied(kSkipped + 1);
  applied.config.inject_overflow = nullptr;
  for (Job* j : {&before, &after, &applied}) j->run();
  for (const std::string& name : kStatistics) {
    INFO(name);
    CHECK(after.statistic(name) == before.statistic(name));
    CHECK(applied.statistic(name) != before.statistic(name));
  }
}

TEST_CASE("statistics that overflow skip the step", "[statistics]") {
  Job job(1);
  const std::vector<float> was = job.statistic("bn1.running_var");
  // The squares of a channel of conv1 exceed fp32: the batch variance is infinite, rstd is 0 and every gradient is
  // finite.
  const HostTensor w = job.session->param(job.slot("conv1.weight"));
  float* p = static_cast<float*>(const_cast<void*>(w.data()));
  for (int64_t i = 0; i < w.numel() / 3; ++i) p[i] *= 1e22f;
  job.run();
  CHECK(job.statistic("bn1.running_var") == was);
}

TEST_CASE("a resumed run has the same statistics, bit by bit", "[statistics]") {
  Job whole(4), half(2), rest(4);
  whole.run();
  half.run();
  const Latest latest = find_latest(half.folder.path / "checkpoints");
  REQUIRE(!latest.path.empty());
  rest.run(&latest.checkpoint);
  const auto bytes = static_cast<size_t>(whole.session->layout().size()) * sizeof(float);
  CHECK(std::memcmp(whole.session->params(), rest.session->params(), bytes) == 0);
}

TEST_CASE("evaluation and the exported file use the committed statistics", "[statistics]") {
  const SafeTensors golden = read_safetensors(kFolder + "golden.safetensors");
  const HostTensor x = *read_safetensors(kFolder + "batch.safetensors").find("x");
  Job job(4);
  job.run();
  const int logits = job.model.graph.find("logits");
  check_close(floats(job.session->forward({logits}, {{"x", x}}).at("logits")), floats(*golden.find("logits")), 1e-4);

  std::vector<TrainedTensor> trained;
  for (size_t i = 0; i < job.session->table().size(); ++i)
    trained.push_back({job.session->table().source_value[i], job.session->param(static_cast<int>(i))});
  const std::string path = (job.folder.path / "out.onnx").string();
  export_model(*job.model.doc, job.model.graph, trained, {}, path);
  const Imported again = import_model(path);
  Session other(again.graph, {});
  check_close(floats(other.forward({again.graph.find("logits")}, {{"x", x}}).at("logits")),
              floats(*golden.find("logits")), 1e-4);
  for (const SourceNode& n : again.graph.nodes) {
    if (n.op != "BatchNormalization") continue;
    CHECK(n.outputs.size() == 1);
    CHECK(n.attrs.i("training_mode", 0) == 0);
  }
  for (const std::string& name : kStatistics) {
    CHECK(floats(again.graph.values[static_cast<size_t>(again.graph.find(name))].data) == job.statistic(name));
  }
}

TEST_CASE("16-bit plans keep running statistics in fp32", "[statistics]") {
  const SafeTensors golden = read_safetensors(kFolder + "golden.safetensors");
  for (const DType low : {DType::f16, DType::bf16}) {
    Job job(1, low);
    job.run();
    for (const std::string& name : kStatistics) {
      INFO(name_of(low) << ' ' << name);
      check_close(job.statistic(name), floats(*golden.find("0/" + name)), low == DType::f16 ? 5e-3 : 4e-2);
      // The statistics are fp32, with more bits than the 16-bit type has.
      const HostTensor t = job.session->param(job.slot(name));
      CHECK(floats(t.cast(low).cast(DType::f32)) != floats(t));
    }
  }
}

TEST_CASE("statistics beyond fp16 do not break evaluation under a 16-bit plan", "[statistics]") {
  Job job(0, DType::f16);
  const HostTensor x = *read_safetensors(kFolder + "batch.safetensors").find("x");
  const auto set = [&](const std::string& name, float factor) {
    const HostTensor t = job.session->param(job.slot(name));
    float* p = static_cast<float*>(const_cast<void*>(t.data()));
    for (int64_t i = 0; i < t.numel(); ++i) p[i] *= factor;
  };
  set("conv1.weight", 1000);
  set("conv1.bias", 1000);
  set("bn1.running_mean", 1000);
  set("bn1.running_var", 1e6f);
  job.session->set_params(job.session->host_params());
  const int logits = job.model.graph.find("logits");
  const std::vector<float> low = floats(job.session->forward({logits}, {{"x", x}}).begin()->second);
  check_close(low, floats(job.session->forward({logits}, {{"x", x}}, true).begin()->second), 2e-2);
}

// A file that was exported in training form runs with batch statistics in inference engines. Trained weights need
// running statistics.
TEST_CASE("a file in training form runs as it is written, and is exported in inference form once trained") {
  for (const bool attribute : {true, false}) {  // opset 14 has an attribute, older opsets more outputs
    INFO((attribute ? "training_mode" : "five outputs"));
    onnx::ModelProto proto;
    const std::string node = attribute ? "y, m2, v2 = BatchNormalization <training_mode = 1> (x, s, b, m, v)"
                                       : "y, m2, v2, m3, v3 = BatchNormalization (x, s, b, m, v)";
    const std::string text =
        "<ir_version: 8, opset_import: [\"\" : " + std::string(attribute ? "15" : "13") +
        "]> g (float[N,1] x) => (float[N,1] y) <float[1] s = {1}, float[1] b = {0}, float[1] m = {5}, "
        "float[1] v = {4}> { " +
        node + " }";
    REQUIRE(onnx::OnnxParser(text.c_str()).Parse(proto).IsOK());
    const test::TempDir scratch;
    const std::string file = scratch.path / "model.onnx", out = scratch.path / "out.onnx";
    std::ofstream(file, std::ios::binary) << proto.SerializeAsString();
    const Tensors batch{{"x", HostTensor::of<float>({2, 1}, {1, 3})}};
    const auto run = [&](const std::string& path, bool as_written) {
      const Imported m = import_model(path);
      SessionOptions o;
      o.batchnorm_as_written = as_written;
      return Session(m.graph, o).forward(m.graph.outputs, batch).at("y").to_doubles();
    };
    const std::vector<double> by_batch = run(file, true), by_running = run(file, false);
    CHECK(std::abs(by_batch[1] - 1) < 1e-5);    // (3 - 2) / sqrt(1 + 1e-5)
    CHECK(std::abs(by_running[1] + 1) < 1e-5);  // (3 - 5) / sqrt(4 + 1e-5)

    const Imported model = import_model(file);
    ExportOptions untrained, trained;
    trained.inference_form = true;
    export_model(*model.doc, model.graph, {}, untrained, out);
    CHECK(run(out, true) == by_batch);
    export_model(*model.doc, model.graph, {}, trained, out);
    CHECK(run(out, true) == by_running);
  }
}
