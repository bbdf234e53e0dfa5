// Runs that are resumed with more steps or epochs than originally configured.
#include <catch2/catch_all.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "run/run.h"
#include "tests/errors.h"
#include "tests/support.h"

using namespace amp;
using amp::test::error_of;
using amp::test::TempDir;
namespace fs = std::filesystem;

namespace {

std::string bytes_of(const std::string& path) { return std::string(read_file(path).text()); }

// Returns the bytes of all files except the lock.
std::map<std::string, std::string> contents(const fs::path& folder) {
  std::map<std::string, std::string> out;
  for (const auto& e : fs::recursive_directory_iterator(folder)) {
    if (e.is_regular_file() && e.path().filename() != ".lock") out[fs::relative(e.path(), folder)] = bytes_of(e.path());
  }
  return out;
}

// Returns a run on 20 texts in batches of 4, two batches per step. An epoch is 3 steps; the last one
// has a single batch.
RunSpec texts(const TempDir& f, const std::string& run) {
  std::ofstream vocab(f / "vocab.txt");
  for (const char* token : {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad", "so", "day", "is"})
    vocab << token << "\n";
  std::ofstream train(f / "train.csv");
  train << "text,label\n";
  for (int i = 0; i < 10; ++i) train << "so good day,fine\nbad day" << (i % 3 ? " is bad" : "") << ",poor\n";
  std::ofstream(f / "val.csv") << "text,label\ngood day,fine\nso bad,poor\n";
  RunSpec spec;
  spec.model.model = test::test_data("zoo/minilm_embed_ts14/model.onnx");
  spec.data.train = f / "train.csv";
  spec.data.val = f / "val.csv";
  spec.data.text.vocab = f / "vocab.txt";
  spec.data.text.text_columns = {"text"};
  spec.output.output_dir = f / run;
  spec.schedule.batch_size = 4;
  spec.schedule.gradient_accumulation_steps = 2;
  spec.schedule.lr_scheduler = "constant_with_warmup";
  spec.schedule.warmup_steps = 2;
  spec.optimization.lr = 1e-3;
  spec.optimization.ema_decay = {"0.9", "0.5"};
  spec.device.device = "cpu";
  return spec;
}

TrainReport trained(const RunSpec& spec) { return train(*prepare(spec)); }

// Returns the learning rates in metrics.jsonl, in multiples of spec.lr.
std::vector<double> rates(const RunSpec& spec) {
  std::vector<double> out;
  std::ifstream in(spec.output.output_dir + "/metrics.jsonl");
  for (std::string line; std::getline(in, line);) {
    const auto j = nlohmann::json::parse(line);
    CHECK(j["step"].get<size_t>() == out.size() + 1);
    out.push_back(j["lr"].get<double>() / *spec.optimization.lr);
  }
  return out;
}

void check_rates(const RunSpec& spec, const std::vector<double>& want) {
  const std::vector<double> got = rates(spec);
  REQUIRE(got.size() == want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    INFO("step " << i);
    CHECK(got[i] == Catch::Approx(want[i]).margin(1e-6));
  }
}

}  // namespace

TEST_CASE("a run that is resumed for twice the steps equals one that had them from the beginning", "[resume]") {
  const TempDir f;
  RunSpec whole = texts(f, "whole"), first = texts(f, "run"), second;
  SECTION("steps, the end in the middle of an epoch") {
    first.schedule.max_steps = 4;
    whole.schedule.max_steps = 8;
  }
  SECTION("epochs") {
    first.schedule.epochs = 1;
    whole.schedule.epochs = 2;
  }
  SECTION("a fraction of an epoch, then steps") {
    first.schedule.epochs = 0.5;
    whole.schedule.max_steps = 5;
  }
  SECTION("evaluations in between, in bf16") {
    first.schedule.max_steps = 4;
    whole.schedule.max_steps = 8;
    first.evaluation.eval_steps = whole.evaluation.eval_steps = 2;
    first.precision.use_bf16 = whole.precision.use_bf16 = true;
  }
  trained(first);
  CHECK(fs::exists(first.output.output_dir + "/model.onnx"));  // the first run ended normally
  second = whole;
  second.output.output_dir = first.output.output_dir;
  second.output.resume = "auto";
  const TrainReport longer = trained(second), at_once = trained(whole);
  CHECK(longer.result.steps == at_once.result.steps);
  CHECK((bytes_of(longer.model) == bytes_of(at_once.model)));
  CHECK(rates(second) == rates(whole));
  for (const char* weights : {"last", "ema", "ema:0.5"}) {
    for (const char* run : {"run", "whole"}) export_run(f / run, weights, "fp32", f / run + ".onnx");
    CHECK((bytes_of(f / "run.onnx") == bytes_of(f / "whole.onnx")));
  }
}

TEST_CASE("another number of steps is refused where the schedule goes by it, and nothing is touched", "[resume]") {
  const TempDir f;
  RunSpec spec = texts(f, "run");
  spec.schedule.lr_scheduler = "linear";
  spec.schedule.max_steps = 4;
  trained(spec);
  spec.output.resume = "auto";
  const auto before = contents(spec.output.output_dir);
  spec.schedule.max_steps = 8;
  CHECK(error_of([&] { trained(spec); }).id() == "E_CKPT_SCHEDULE");
  spec.schedule.max_steps = 3;
  CHECK(error_of([&] { trained(spec); }).id() == "E_CKPT_STEPS");
  spec.schedule.max_steps = 4;
  spec.optimization.lr = 1;
  CHECK(error_of([&] { trained(spec); }).id() == "E_CKPT_MISMATCH");
  CHECK((contents(spec.output.output_dir) == before));
}

TEST_CASE("the learning rates of a schedule that is stretched, begun anew, held", "[resume]") {
  const TempDir f;
  RunSpec spec = texts(f, "run");
  spec.schedule.lr_scheduler = "linear";
  spec.schedule.warmup_steps = 0;
  spec.schedule.max_steps = 4;
  trained(spec);
  check_rates(spec, {1, 3. / 4, 2. / 4, 1. / 4});
  spec.output.resume = "auto";
  spec.schedule.max_steps = 8;
  SECTION("stretch") {
    spec.output.resume_schedule = "stretch";
    trained(spec);
    check_rates(spec, {1, 3. / 4, 2. / 4, 1. / 4, 4. / 8, 3. / 8, 2. / 8, 1. / 8});
  }
  SECTION("restart") {
    spec.output.resume_schedule = "restart";
    spec.output.save_steps = 1;
    spec.output.save_total_limit = 0;
    trained(spec);
    const std::vector<double> want = {1, 3. / 4, 2. / 4, 1. / 4, 1, 3. / 4, 2. / 4, 1. / 4};
    check_rates(spec, want);
    const std::string model = bytes_of(spec.output.output_dir + "/model.onnx");
    // If the run is killed, the same command resumes it and ends with the same bytes.
    for (const char* step : {"7", "8"}) fs::remove_all(spec.output.output_dir + "/checkpoints/checkpoint-" + step);
    trained(spec);
    check_rates(spec, want);
    CHECK((bytes_of(spec.output.output_dir + "/model.onnx") == model));
  }
  SECTION("hold") {
    spec.output.resume_schedule = "hold";
    trained(spec);
    check_rates(spec, {1, 3. / 4, 2. / 4, 1. / 4, 1. / 4, 1. / 4, 1. / 4, 1. / 4});
    spec.output.resume_schedule = "auto";
    spec.schedule.max_steps = 9;  // allowed, because a constant rate does not depend on the number of steps
    trained(spec);
    CHECK(rates(spec).back() == Catch::Approx(1. / 4));
  }
}

TEST_CASE("a run that early stopping ended goes on with more patience only", "[resume]") {
  const TempDir f;
  RunSpec spec = texts(f, "run");
  spec.schedule.warmup_steps = 0;
  spec.optimization.lr = 0;  // the loss does not improve
  spec.evaluation.eval_steps = 1;
  spec.evaluation.early_stopping_patience = 2;
  spec.schedule.max_steps = 6;
  CHECK(trained(spec).result.steps == 3);  // the first evaluation is the best
  spec.output.resume = "auto";
  CHECK(trained(spec).result.steps == 3);
  spec.schedule.max_steps = 9;
  CHECK(trained(spec).result.steps == 3);
  spec.evaluation.early_stopping_patience = 4;
  CHECK(trained(spec).result.steps == 5);
  spec.evaluation.early_stopping_patience = 0;
  CHECK(trained(spec).result.steps == 9);
}

TEST_CASE("early stopping wants more than its threshold, the best one does not", "[resume]") {
  const TempDir f;
  RunSpec spec = texts(f, "run");
  spec.schedule.warmup_steps = 0;
  spec.optimization.lr = 1e-4;  // the loss of every evaluation is a little lower
  spec.evaluation.eval_steps = 1;
  spec.evaluation.metric_for_best_model = "loss";
  spec.evaluation.early_stopping_patience = 2;
  spec.schedule.max_steps = 6;
  CHECK(trained(spec).result.steps == 6);
  spec.output.output_dir = f / "threshold";
  spec.evaluation.early_stopping_threshold = 1;
  const TrainReport stopped = trained(spec);
  CHECK(stopped.result.steps == 3);
  CHECK(stopped.result.best_step == 3);
  spec.output.resume = "auto";
  spec.evaluation.early_stopping_threshold = 0;  // the two evaluations without an improvement still count
  CHECK(trained(spec).result.steps == 3);
  spec.evaluation.early_stopping_patience = 3;
  CHECK(trained(spec).result.steps == 6);
}
