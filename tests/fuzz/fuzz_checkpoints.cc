// A checkpoint with valid checksums and arbitrary contents, as somebody could make it: Trainer::resume(), then the
// steps that remain. Section "manifest" is the manifest up to its checksum, section "state" is state.safetensors.
// Tensors that the input lacks are those of a good checkpoint, so that a changed manifest reaches the trainer.
#include "base/checksum.h"
#include "base/safetensors.h"
#include "data/tensor_dataset.h"
#include "fuzz/fuzz.h"
#include "fuzz/memory_folder.h"
#include "fuzz/sections.h"
#include "tests/trainer/small_run.h"
#include "trainer/loop/manifest.h"
#include "trainer/loop/resumed_schedule.h"
#include "trainer/loop/trainer.h"

namespace {

using namespace amp;

constexpr int64_t kSteps = 3;

// A small run. One is used for all inputs, because compiling takes much longer than a step.
struct Run {
  SourceGraph graph =
      test::random_graph("input x\nparam w 3 2\nparam b 2\np = MatMul(x, w)\ny = Add(p, b)\noutput y", "w 0.5\nb 0.1");
  std::unique_ptr<Dataset> data = make_tensor_dataset(
      {{"x", test::normal({6, 3}, 1, 1)}, {"label", HostTensor::of<int64_t>({6}, {0, 1, 0, 1, 1, 0})}}, "data",
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
