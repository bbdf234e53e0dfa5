// A checkpoint with valid checksums and arbitrary contents, which an attacker could write: runs Trainer::resume() and
// the remaining steps. Section "manifest" is the manifest up to its checksum, section "state" is state.safetensors.
// Tensors that the input lacks are those of a good checkpoint, so that a changed manifest reaches the trainer.
#include "base/checksum.h"
#include "base/safetensors.h"
#include "data/tensor_dataset.h"
#include "fuzz/fuzz.h"
#include "fuzz/memory_folder.h"
#include "fuzz/sections.h"
#include "trainer/loop/manifest.h"
#include "trainer/loop/resumed_schedule.h"
#include "trainer/loop/trainer.h"

namespace {

using namespace amp;

constexpr int64_t kSteps = 3;

HostTensor ramp(const Dims& dims) {
  std::vector<float> x(static_cast<size_t>(numel(dims)));
  for (size_t i = 0; i < x.size(); ++i) x[i] = 0.1f * static_cast<float>(i) - 0.3f;
  return HostTensor::of<float>(dims, x);
}

int parameter(SourceGraph& g, const char* name, const Dims& dims) {
  SourceValue v;
  v.name = name;
  v.kind = SourceKind::parameter;
  v.dtype_known = v.rank_known = v.trainable = true;
  v.data = ramp(dims);
  for (const int64_t d : dims) v.dims.push_back({d, ""});
  return g.add_value(v);
}

int node(SourceGraph& g, const char* op, const char* output, int a, int b) {
  SourceValue v;
  v.name = output;
  SourceNode n;
  n.op = n.name = op;
  n.version = 17;
  n.inputs = {a, b};
  n.outputs = {g.add_value(v)};
  g.add_node(n);
  return n.outputs[0];
}

// Returns the model y = x w + b.
SourceGraph linear_layer() {
  SourceGraph g;
  SourceValue x;
  x.name = "x";
  x.kind = SourceKind::input;
  x.dtype_known = true;
  g.inputs = {g.add_value(x)};
  const int w = parameter(g, "w", {3, 2}), b = parameter(g, "b", {2});
  g.outputs = {node(g, "Add", "y", node(g, "MatMul", "p", g.inputs[0], w), b)};
  return g;
}

// A small run, which is used for all inputs, because compiling takes much longer than a step.
struct Run {
  SourceGraph graph = linear_layer();
  std::unique_ptr<Dataset> data =
      make_tensor_dataset({{"x", ramp({6, 3})}, {"label", HostTensor::of<int64_t>({6}, {0, 1, 0, 1, 1, 0})}}, "data",
                          {{"x", DType::f32, Dims{-1, 3}}}, {});
  TrainerConfig config;
  Session session{graph, SessionOptions()};
  StopSignals stop;
  Checkpoint good;

  Run() {
    config.objective.losses = LossSpec{"cross_entropy", {"y"}};
    config.objective.task = Task::classification;
    config.optimizer.ema_decays = {0.9};
    config.schedule.total_steps = config.max_steps = kSteps;
    config.sampler.batch_size = 2;
    config.best_metric = "loss";
    config.output_dir = fuzz::memory_folder().path();
    config.fixed = {{"model", "00ff"}};
    session.prepare(config.objective.losses,
                    {{"x", HostTensor::zeros(DType::f32, {2, 3})}, {"label", HostTensor::zeros(DType::i64, {2})}});
    config.save_steps = 1;
    Trainer(session, *data, nullptr, stop, config).run();
    good = find_latest(config.output_dir + "/checkpoints").checkpoint;
    config.saves = false;
    config.save_steps = 0;
  }

  void resume(const Checkpoint& from) {
    TrainerConfig c = config;
    fuzz::accepts_or_refuses([&] {
      ScheduleConfig longer = config.schedule;
      ++longer.total_steps;
      resumed_schedule(longer, from, ResumeSchedule::automatic);
    });
    Trainer trainer(session, *data, data.get(), stop, c);
    trainer.resume(from);
    trainer.run();
  }
};

Checkpoint checkpoint_of(std::string_view input, const Checkpoint& good) {
  Checkpoint c = good;
  for (const auto& [name, bytes] : fuzz::sections(input)) {
    if (name == "state") {
      for (NamedTensor& t : parse_safetensors(fuzz::as_file_bytes(bytes), Exit::checkpoint).tensors)
        c.tensors[t.name] = std::move(t.tensor);
    } else if (name == "manifest") {
      std::string text(bytes);
      text += ",\n \"manifest_crc32c\": \"";
      text += crc32c(text.data(), static_cast<int64_t>(text.size())) + "\"\n}\n";
      const Manifest m = parse_manifest(text);
      c.step = m.step;
      c.state = m.state;
      c.hashes = m.hashes;
    }
  }
  return c;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static Run run;
  return fuzz::accepts_or_refuses([&] { run.resume(checkpoint_of(fuzz::text(data, size), run.good)); });
}
