// Checkpoints that are written in the background: the steps continue meanwhile, errors are reported, and the bytes are
// those of other checkpoints.
#include <atomic>
#include <catch2/catch_all.hpp>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>
#include <utility>

#include "data/tensor_dataset.h"
#include "small_run.h"
#include "tests/errors.h"
#include "tests/support.h"
#include "trainer/loop/checkpoint_writer.h"
#include "trainer/loop/trainer.h"

using namespace amp;
using namespace amp::test;
namespace stdfs = std::filesystem;

namespace {

Checkpoint checkpoint(int64_t step) {
  Checkpoint c;
  c.step = step;
  c.tensors["param/w"] = HostTensor::of<float>({2}, {1, 2});
  return c;
}

Save save_of(const std::vector<int64_t>& steps, std::function<void()> before = nullptr) {
  Save save;
  for (const int64_t step : steps) save.checkpoints.push_back(checkpoint(step));
  save.before = std::move(before);
  return save;
}

// Waits until a flag is set, for at most 20 seconds.
bool wait_for(const std::atomic<bool>& flag) {
  for (int i = 0; i < 2000 && !flag; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return flag;
}

struct Job {
  SourceGraph graph = random_graph("input x\nparam w 4 1\ny = MatMul(x, w)\noutput y", "w 0.5");
  TensorOptions options;
  std::unique_ptr<Dataset> train, val;
  TrainerConfig config;

  explicit Job(const stdfs::path& folder) {
    options.batch_size = 2;
    train = samples(1);
    val = samples(7);
    config.objective.losses = LossSpec{"mse", {"y"}};
    config.schedule.total_steps = config.max_steps = 12;
    config.schedule.lr = 0.05;
    config.sampler.batch_size = 4;
    config.eval_steps = 3;
    config.best_metric = "loss";
    config.save_steps = 2;
    config.save_total_limit = 0;
    config.output_dir = folder.string();
    stdfs::create_directories(folder);
  }
  std::unique_ptr<Dataset> samples(uint64_t seed) const {
    return make_tensor_dataset({{"x", normal({16, 4}, 1, seed)}, {"label", normal({16, 1}, 1, seed + 1)}}, "data",
                               {{"x", DType::f32, Dims{-1, 4}}}, options);
  }
  TrainResult run(bool resume = false) {
    Session session(graph, {});
    session.prepare(config.objective.losses,
                    {{"x", HostTensor::zeros(DType::f32, {4, 4})}, {"label", HostTensor::zeros(DType::f32, {4, 1})}});
    const StopSignals stop;
    Trainer trainer(session, *train, val.get(), stop, config);
    if (resume) trainer.resume(find_latest(config.output_dir + "/checkpoints").checkpoint);
    return trainer.run();
  }
  std::vector<int64_t> saved() const { return list_checkpoints(config.output_dir + "/checkpoints"); }
  std::string file(const std::string& name) const {
    std::ifstream in(config.output_dir + "/" + name, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  // Checks that all checkpoints and evaluations have the bytes of another run.
  void check_equal(const Job& other) const {
    CHECK(file("eval.jsonl") == other.file("eval.jsonl"));
    REQUIRE(saved() == other.saved());
    for (const int64_t step : saved()) {
      INFO("checkpoint " << step);
      for (const char* name : {"state.safetensors", "manifest.json"})
        CHECK(file(cat("checkpoints/checkpoint-", step, "/", name)) ==
              other.file(cat("checkpoints/checkpoint-", step, "/", name)));
    }
  }
};

}  // namespace

TEST_CASE("a save in the background is not waited for, and its checkpoints are written in order", "[save]") {
  const TempDir folder;
  std::atomic<bool> go{false};
  CheckpointWriter writer(folder / "checkpoints");
  writer.start(save_of({3, 5}, [&] { wait_for(go); }));
  CHECK(writer.busy());
  CHECK(writer.take().seconds == 0);
  CHECK(list_checkpoints(folder / "checkpoints").empty());
  go = true;
  CHECK(writer.finish().seconds > 0);
  CHECK_FALSE(writer.busy());
  CHECK(list_checkpoints(folder / "checkpoints") == std::vector<int64_t>{3, 5});
  CHECK(verifies(checkpoint_path(folder / "checkpoints", 5)));
}

TEST_CASE("the error of a save in the background is thrown once, and the next save is written", "[save]") {
  const TempDir folder;
  std::ofstream(folder / "checkpoints") << "a file";
  CheckpointWriter writer(folder / "checkpoints");
  writer.start(save_of({3}));
  CHECK(error_of([&] { writer.finish(); }).exit() == Exit::storage);
  CHECK(writer.take().seconds == 0);
  stdfs::remove(folder / "checkpoints");
  writer.start(save_of({4}));
  writer.finish();
  CHECK(list_checkpoints(folder / "checkpoints") == std::vector<int64_t>{4});
}

TEST_CASE("a writer that is destroyed finishes its save", "[save]") {
  const TempDir folder;
  {
    CheckpointWriter writer(folder / "checkpoints");
    writer.start(save_of({3}, [] { std::this_thread::sleep_for(std::chrono::milliseconds(30)); }));
  }
  CHECK(list_checkpoints(folder / "checkpoints") == std::vector<int64_t>{3});
}

TEST_CASE("steps go on while a checkpoint is written, and the bytes are those of a run that waits", "[save]") {
  const TempDir folder;
  Job waits(folder / "waits"), goes_on(folder / "goes_on");
  std::set<std::thread::id> writers;
  waits.config.copy_bytes = 0;
  waits.config.before_save = [&] { writers.insert(std::this_thread::get_id()); };
  std::string notes;
  waits.config.log = Log([&](Level level, const std::string& text) {
    if (level == Level::note) notes += text + "\n";
  });
  waits.run();
  CHECK(writers == std::set{std::this_thread::get_id()});
  CHECK_THAT(notes, Catch::Matchers::ContainsSubstring("steps wait while a checkpoint is written"));

  // The first save is held until the next step has run.
  std::atomic<bool> next_step{false};
  bool went_on = false;
  goes_on.config.on_step = [&](const StepResult& s) {
    if (s.step == 2) next_step = true;
  };
  goes_on.config.before_save = [&, first = true]() mutable {
    if (std::exchange(first, false)) went_on = wait_for(next_step);
  };
  goes_on.run();
  CHECK(went_on);
  goes_on.check_equal(waits);
}

TEST_CASE("automatic saves skip a checkpoint while another one is written", "[save]") {
  const TempDir folder;
  Job job(folder.path);
  job.config.save_steps = job.config.eval_steps = 0;
  job.config.save_strategy = SaveStrategy::automatic;
  job.config.schedule.total_steps = job.config.max_steps = 20;  // 5 epochs
  job.val.reset();
  std::atomic<bool> late{false};
  job.config.on_step = [&](const StepResult& s) {
    if (s.step == 17) late = true;
  };
  job.config.before_save = [&, first = true]() mutable {
    if (std::exchange(first, false)) wait_for(late);
  };
  job.run();
  CHECK(job.saved() == std::vector<int64_t>{4, 20});
}

TEST_CASE("a failed save in the background ends the run with its error, and a resumed run has the same bytes",
          "[save]") {
  const TempDir folder;
  Job whole(folder / "whole"), fails(folder / "fails");
  whole.run();
  fails.config.before_save = [n = 0]() mutable {
    if (++n == 2) fail(Exit::storage, "E_WRITE", "the disk is full");
  };
  const Error e = error_of([&] { fails.run(); });
  CHECK(e.id() == "E_WRITE");
  REQUIRE(fails.saved().size() == 1);
  fails.config.before_save = nullptr;
  fails.run(true);
  fails.check_equal(whole);
}

TEST_CASE("a failed save before the last one, and the last one, are reported at the end", "[save]") {
  const TempDir folder;
  for (const int failing : {5, 6}) {
    INFO("save " << failing << " of 6");
    Job job(folder / cat("run-", failing));
    job.config.eval_steps = 0;
    job.val.reset();
    job.config.save_strategy = SaveStrategy::steps;
    job.config.before_save = [failing, n = 0]() mutable {
      if (++n == failing) fail(Exit::storage, "E_WRITE", "the disk is full");
    };
    CHECK(error_of([&] { job.run(); }).id() == "E_WRITE");
  }
}

TEST_CASE("a stop finishes the save in progress and writes the last checkpoint", "[save]") {
  const TempDir folder;
  Job whole(folder / "whole"), cut(folder / "cut");
  whole.run();
  cut.config.before_save = [] { std::this_thread::sleep_for(std::chrono::milliseconds(100)); };
  cut.config.on_step = [](const StepResult& s) {
    if (s.step == 9) ::raise(SIGTERM);  // step 10 is saved, step 11 ends the run
  };
  const TrainResult r = cut.run();
  CHECK(r.stopped);
  CHECK(r.saved);
  CHECK(r.steps == 11);
  std::vector<int64_t> saved = whole.saved();
  saved.back() = 11;
  CHECK(cut.saved() == saved);
  cut.config.on_step = nullptr;
  cut.run(true);
  stdfs::remove_all(checkpoint_path(cut.config.output_dir + "/checkpoints", 11));
  cut.check_equal(whole);
}
