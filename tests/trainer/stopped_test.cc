// A stop request during an evaluation takes effect before the evaluation ends, and the resumed run ends as one that was
// never stopped.
#include <unistd.h>

#include <catch2/catch_all.hpp>
#include <filesystem>
#include <fstream>

#include "data/tensor_dataset.h"
#include "small_run.h"
#include "tests/support.h"
#include "trainer/loop/trainer.h"

using namespace amp;
using namespace amp::test;
namespace stdfs = std::filesystem;

namespace {

const char* const kNet = R"(
    input x
    param w1 4 8
    param w2 8 1
    h = MatMul(x, w1)
    a = Relu(h)
    y = MatMul(a, w2)
    output y)";

std::unique_ptr<Dataset> samples(uint64_t seed) {
  TensorOptions t;
  t.batch_size = 2;
  return make_tensor_dataset({{"x", normal({16, 4}, 1, seed)}, {"label", normal({16, 1}, 1, seed + 1)}}, "data",
                             {{"x", DType::f32, Dims{-1, 4}}}, t);
}

// Validation data that raise a signal when the n-th batch is requested.
class Interrupted : public Dataset {
 public:
  Interrupted(std::unique_ptr<Dataset> data, int n) : data_(std::move(data)), left_(n) {}
  int64_t size() const override { return data_->size(); }
  Batch batch(std::span<const int64_t> samples) const override {
    if (--left_ == 0) ::raise(SIGTERM);
    ++asked;
    return data_->batch(samples);
  }
  std::string where(int64_t sample) const override { return data_->where(sample); }
  void check_token_range(const std::string&, int64_t) const override {}
  void check_label_range(int64_t, int64_t) const override {}
  mutable std::atomic<int> asked{0};

 private:
  std::unique_ptr<Dataset> data_;
  mutable std::atomic<int> left_;
};

struct Job {
  SourceGraph graph = random_graph(kNet, "w1 0.5\nw2 0.5");
  std::unique_ptr<Dataset> train = samples(1);
  TrainerConfig config;
  explicit Job(const stdfs::path& folder) {
    config.objective.losses = LossSpec{"mse", {"y"}};
    config.schedule.total_steps = config.max_steps = 8;
    config.schedule.lr = 0.05;
    config.sampler.batch_size = 4;
    config.eval_batch_size = 2;
    config.eval_steps = 2;
    config.best_metric = "loss";
    config.output_dir = folder.string();
    stdfs::create_directories(folder);
  }
  TrainResult run(int signal_at, bool resume = false) {
    Session session(graph, {});
    session.prepare(config.objective.losses,
                    {{"x", HostTensor::zeros(DType::f32, {4, 4})}, {"label", HostTensor::zeros(DType::f32, {4, 1})}});
    const Interrupted val(samples(7), signal_at);
    const StopSignals stop;
    Trainer trainer(session, *train, &val, stop, config);
    if (resume) trainer.resume(find_latest(config.output_dir + "/checkpoints").checkpoint);
    const TrainResult r = trainer.run();
    asked = val.asked;
    return r;
  }
  std::string file(const std::string& name) const {
    std::ifstream in(config.output_dir + "/" + name, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  int asked = 0;
};

}  // namespace

TEST_CASE("a stop during the first evaluation ends the run at once: there is nothing to keep", "[stop]") {
  const test::TempDir folder;
  Job job(folder.path);
  const TrainResult r = job.run(2);
  CHECK(r.stopped);
  CHECK_FALSE(r.saved);
  CHECK(r.steps == 0);
  CHECK(job.asked <= 4);  // not all 8 batches of the evaluation; the loader reads ahead
  CHECK(find_latest(folder / "checkpoints").path.empty());
}

TEST_CASE("a run that is stopped within an evaluation resumes to the same bytes", "[stop]") {
  const test::TempDir folder;
  Job whole(folder / "whole");
  whole.config.save_steps = 1;  // the last evaluation finds a better checkpoint, which changes the one that is removed
  CHECK_FALSE(whole.run(0).stopped);
  // Signals arrive in the second evaluation (8 batches, after step 2) and in the last one (after step 8).
  for (const auto& [signal_at, step] : {std::pair{8 + 2, 2}, std::pair{4 * 8 + 3, 8}}) {
    INFO("at batch " << signal_at);
    Job cut(folder / cat("cut-", signal_at));
    cut.config.save_steps = 1;
    const TrainResult r = cut.run(signal_at);
    CHECK(r.stopped);
    CHECK(r.saved);
    CHECK(r.steps == step);
    CHECK_FALSE(cut.run(0, true).stopped);
    CHECK(cut.file("eval.jsonl") == whole.file("eval.jsonl"));
    CHECK(list_checkpoints(cut.config.output_dir + "/checkpoints") ==
          list_checkpoints(whole.config.output_dir + "/checkpoints"));
    for (const char* name : {"state.safetensors", "manifest.json"})
      CHECK(cut.file(cat("checkpoints/checkpoint-8/", name)) == whole.file(cat("checkpoints/checkpoint-8/", name)));
  }
}

TEST_CASE("a run out of time stops after its step, and gets on each time it is resumed, to the same bytes", "[stop]") {
  const test::TempDir folder;
  Job whole(folder / "whole"), cut(folder / "cut");
  CHECK_FALSE(whole.run(0).stopped);
  cut.config.max_seconds = 1e-9;
  for (int step = 1; step < 8; ++step) {
    const TrainResult r = cut.run(0, step > 1);
    CHECK(r.stopped);
    CHECK(r.saved);
    CHECK(r.steps == step);
  }
  CHECK_FALSE(cut.run(0, true).stopped);  // not stopped again, because no step remains
  CHECK(cut.file("eval.jsonl") == whole.file("eval.jsonl"));
  for (const char* name : {"state.safetensors", "manifest.json"})
    CHECK(cut.file(cat("checkpoints/checkpoint-8/", name)) == whole.file(cat("checkpoints/checkpoint-8/", name)));
}
