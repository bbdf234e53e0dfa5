// Runs that are interrupted, and folders that lose files: what a resumed run writes, recovers, removes and refuses.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch_all.hpp>
#include <cerrno>
#include <nlohmann/json.hpp>

#include "base/fs.h"
#include "base/temporary.h"
#include "run/folder/output_folder.h"
#include "run/folder/run_files.h"
#include "tests/errors.h"
#include "tests/faults.h"
#include "tests/importer/models.h"
#include "tests/support.h"
#include "tests/tools/verb_run.h"

using namespace amp;
using namespace amp::test;
using Catch::Matchers::ContainsSubstring;
using nlohmann::json;
namespace stdfs = std::filesystem;

namespace {

// Trains a classifier of texts in fp16, whose run.json has a confusion matrix and metrics of the weights before the
// export.
std::vector<std::string> classify(const TempDir& f, const std::string& dir, std::vector<std::string> more) {
  if (!path_exists(f / "v.txt")) {
    write_bytes(f / "v.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\ngood\nbad\nday\n");
    write_bytes(f / "t.csv", "t,y\ngood day,yes\nbad day,no\ngood day day,yes\nbad bad,maybe\n");
  }
  std::vector<std::string> words = {test_data("surgery/bert.onnx"),
                                    "--train",
                                    f / "t.csv",
                                    "--val",
                                    f / "t.csv",
                                    "--vocab",
                                    f / "v.txt",
                                    "--text_columns",
                                    "t",
                                    "--label_column",
                                    "y",
                                    "--device",
                                    "cpu",
                                    "--quiet",
                                    "--use_fp16",
                                    "--batch_size",
                                    "2",
                                    "--max_steps",
                                    "6",
                                    "--output_dir",
                                    dir};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// Returns run.json without times, memory and the settings of the start.
json facts_of(const std::string& dir) {
  json j = json::parse(bytes_of(dir + "/run.json"));
  for (const char* part : {"config", "sources", "timing", "finished_at", "peak_memory_bytes"}) j.erase(part);
  return j;
}

void save(const std::string& dir, int64_t step) {
  Checkpoint c;
  c.step = step;
  c.tensors["w"] = HostTensor::of<float>({1}, {1});
  save_checkpoint(dir + "/checkpoints", c, {0});
}

pid_t ended_process() {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  ::waitpid(child, nullptr, 0);
  return child;
}

}  // namespace

TEST_CASE("a run that a signal ends while it publishes leaves no staged files", "[crash]") {
  const TempDir f;
  const pid_t child = ::fork();
  if (child == 0) {
    OutputFolder run({f / "run", "none", true, {}});
    run.begin();
    const std::string finish = run.finish_path();
    for (const char* name : kModelFiles) std::ofstream(finish + "/" + name) << "part";
    remove_temporaries();  // by a signal handler
    ::_exit(stdfs::exists(finish) ? 1 : 0);
  }
  int status = -1;
  CHECK((::waitpid(child, &status, 0) == child && status == 0));
}

TEST_CASE("run.json of a resumed run equals the uninterrupted one's", "[crash]") {
  const TempDir f;
  const std::vector<std::string> saves = {"--save_steps", "1", "--eval_steps", "2"};
  must_run(classify(f, f / "whole", saves));
  const json whole = facts_of(f / "whole");
  CHECK(whole["initial_metrics"].contains("confusion_matrix"));
  CHECK(whole["metrics_as_trained"].contains("per_class"));
  // Resumes two runs: one was stopped after one step, the other was killed after the last save, before the export.
  std::vector<std::string> stopped = saves, resumed = saves;
  stopped.insert(stopped.end(), {"--max_minutes", "1e-6"});
  resumed.insert(resumed.end(), {"--resume", "auto"});
  CHECK(run_verb(classify(f, f / "parts", stopped)).code == 75);
  must_run(classify(f, f / "parts", resumed));
  CHECK(facts_of(f / "parts") == whole);
  stdfs::remove(f / "parts/model.onnx");
  must_run(classify(f, f / "parts", resumed));
  CHECK(facts_of(f / "parts") == whole);
  CHECK(bytes_of(f / "parts/model.onnx") == bytes_of(f / "whole/model.onnx"));
}

TEST_CASE("a line of eval.jsonl is durable before the checkpoint of its step", "[crash]") {
  if (!Faults::available()) SKIP("sanitizers replace the same functions");
  const TempDir f;
  std::vector<std::string> synced;
  {
    const Faults faults([&](const FileCall& c) {
      if (c.name == "fsync") synced.push_back(stdfs::path(c.path).filename().string());
      return kPass;
    });
    must_run(classify(f, f / "run", {"--max_steps", "1"}));
  }
  const auto line = std::find(synced.begin(), synced.end(), "eval.jsonl");
  const auto steps = std::find(synced.begin(), synced.end(), "metrics.jsonl");
  const auto state = std::find(synced.begin(), synced.end(), "state.safetensors");
  REQUIRE(state != synced.end());
  CHECK(line < state);
  CHECK(steps < state);
}

TEST_CASE("a run that ends has no more checkpoints than asked for", "[crash]") {
  const TempDir f;
  must_run(classify(f, f / "run", {"--save_steps", "2", "--save_total_limit", "0"}));
  CHECK(list_checkpoints(f / "run/checkpoints").size() == 3);
  must_run(classify(f, f / "run", {"--save_steps", "2", "--save_total_limit", "1", "--resume", "auto"}));
  const std::vector<int64_t> left = list_checkpoints(f / "run/checkpoints");
  CHECK(left.size() <= 2);  // at most the last checkpoint and the best one
  CHECK(left.back() == 6);
}

TEST_CASE("a damaged best checkpoint is found before training", "[crash]") {
  const TempDir f;
  const std::vector<std::string> best = {"--export_weights", "best", "--save_steps", "1"};
  std::vector<std::string> longer = best;
  longer.insert(longer.end(), {"--max_steps", "9", "--resume", "auto", "--resume_schedule", "stretch"});
  must_run(classify(f, f / "run", best));
  const std::string checkpoints = f / "run/checkpoints";
  const int64_t newest = list_checkpoints(checkpoints).back();
  const int64_t step = best_step_of(load_checkpoint(checkpoint_path(checkpoints, newest)));
  if (step == newest) SKIP("the last step is the best one");
  stdfs::resize_file(checkpoint_path(checkpoints, step) + "/state.safetensors", 100);
  for (const auto& words :
       {classify(f, f / "run", longer), {"export", f / "run", "--export_weights", "best", "--out", f / "x.onnx"}}) {
    const Error e = error_of([&] { must_run(words); });
    CHECK(e.exit() == Exit::checkpoint);
    CHECK(e.id() == "E_CKPT_TORN");
    CHECK_THAT(e.hint(), ContainsSubstring("--export_weights last"));
  }
  CHECK(json_lines(f / "run/metrics.jsonl").size() == 6);
}

TEST_CASE("a folder that was removed during a run is noticed, and what survived can be resumed", "[crash]") {
  const TempDir f;
  const std::string dir = f / "run";
  {
    OutputFolder run({dir, "none", false, {}});
    run.begin();
    CHECK_NOTHROW(run.require_present());
    stdfs::remove_all(dir);
    save(dir, 5);  // recreates checkpoints/, without lock and record
    for (const Error& e : {error_of([&] { run.require_present(); }), error_of([&] { run.finish_path(); }),
                           error_of([&] { run.publish(); })}) {
      CHECK(e.exit() == Exit::storage);
      CHECK_THAT(e.fact(), ContainsSubstring("was removed"));
    }
  }
  CHECK_FALSE(has_record(dir));
  {
    OutputFolder run({dir, "auto", false, {}});
    REQUIRE(run.checkpoint());
    CHECK(run.checkpoint()->step == 5);
    run.begin();
  }
  CHECK(has_record(dir));
  CHECK_NOTHROW(OutputFolder({dir, "none", true, {}}));
  write_bytes(dir + "/model.onnx", "not the run's");
  CHECK(error_of([&] { OutputFolder({dir, "auto", false, {}}); }).id() == "E_OUTPUT_FOREIGN");
}

TEST_CASE("temporary files of ended processes are removed at the next start", "[crash]") {
  const TempDir f;
  const std::string dir = f / "run", dead = std::to_string(ended_process()), alive = std::to_string(::getppid());
  for (const char* resume : {"none", "auto"}) {
    stdfs::create_directories(dir + "/model.onnx.tmp-trial-" + dead);
    for (const std::string name : kRunFiles) {
      if (name != "checkpoints") write_bytes(dir + "/" + name + ".tmp-" + dead, "x");
    }
    const std::vector<std::string> own = {"/.run-files.json.tmp-" + dead, "/.move.json.tmp-" + dead, "/.probe-" + dead,
                                          "/.probe-" + dead + "-renamed",
                                          "/metrics.jsonl.tmp-" + std::to_string(::getpid())};
    for (const std::string& name : own) write_bytes(dir + name, "x");
    const std::vector<std::string> kept = {"mine.tmp-" + dead, "report.html.tmp-" + alive, "report.html.tmp-"};
    for (const std::string& name : kept) write_bytes(dir + "/" + name, "x");
    OutputFolder run({dir, resume, resume == std::string("none"), {}});
    run.begin();
    std::vector<std::string> left = list_dir(dir);
    std::erase(left, ".lock");
    std::erase(left, kRecordFile);
    std::vector<std::string> wanted = kept;
    std::sort(wanted.begin(), wanted.end());
    CHECK(left == wanted);
  }
}

TEST_CASE("a start recovers the only checkpoint from a replacement that was cut short", "[crash]") {
  const TempDir f;
  const std::string dir = f / "run";
  {
    OutputFolder run({dir, "none", false, {}});
    run.begin();
  }
  save(dir, 3);
  stdfs::rename(checkpoint_path(dir + "/checkpoints", 3), dir + "/checkpoints/checkpoint-3.tmp-7-old");
  std::string noted;
  const Log log([&](Level, const std::string& text) { noted += text; });
  OutputFolder run({dir, "auto", false, {}}, log);
  REQUIRE(run.checkpoint());
  CHECK(run.checkpoint()->step == 3);
  CHECK_THAT(noted, ContainsSubstring("recovered"));
}

TEST_CASE("a run of a lower layer of overlayfs is replaced", "[crash]") {
  if (!Faults::available()) SKIP("sanitizers replace the same functions");
  const TempDir f;
  const std::string dir = f / "run";
  must_run(classify(f, dir, {"--save_steps", "3"}));
  // overlayfs cannot rename folders of its lower layer. Such folders are those of the old run, and those of a new run
  // after a snapshot of the container.
  {
    OutputFolder run({dir, "none", true, {}});
    run.begin();
    CHECK(run.replaces());
  }
  save(dir + "/.new-run", 3);
  const Faults faults([&](const FileCall& c) {
    const bool lower = is_dir(c.path) && c.path.find(".tmp-") == std::string::npos;
    return c.name.starts_with("rename") && lower ? EXDEV : kPass;
  });
  OutputFolder run({dir, "auto", false, {}});
  run.begin();
  write_bytes(run.finish_path() + "/model.onnx", "new");
  run.publish();
  CHECK(bytes_of(dir + "/model.onnx") == "new");
  CHECK(list_checkpoints(dir + "/checkpoints") == std::vector<int64_t>{3});
  CHECK(list_dir(dir + "/checkpoints").size() == 1);
  CHECK_NOTHROW(verify_checkpoint(dir + "/checkpoints/checkpoint-3"));
}
