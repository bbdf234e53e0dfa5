// The library without the command line: contents of a run's folder, and export and evaluation after the data have been
// deleted.
#include "run/run.h"

#include <catch2/catch_all.hpp>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>

#include "base/file.h"
#include "tests/errors.h"
#include "tests/support.h"

using namespace amp;
using amp::test::error_of;
using amp::test::TempDir;
using Catch::Matchers::ContainsSubstring;
namespace fs = std::filesystem;

namespace {

std::string bytes_of(const std::string& path) { return std::string(read_file(path).text()); }

void write(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

RunSpec lenet(const TempDir& f, const std::string& run) {
  const std::string entry = test::test_data("zoo/lenet_relu_dyn18");
  for (const char* name : {"model.onnx", "batch.safetensors"}) {
    if (!fs::exists(f / name)) fs::copy_file(entry + "/" + name, f / name);
  }
  RunSpec spec;
  spec.model.model = f / "model.onnx";
  spec.data.train = f / "batch.safetensors";
  spec.output.output_dir = f / run;
  spec.objective.loss = {"cross_entropy"};
  spec.schedule.lr_scheduler = "constant";
  spec.output.save_strategy = "epoch";
  spec.output.save_total_limit = 0;
  spec.device.device = "cpu";
  return spec;
}

// Returns a run of a BERT of two layers, with a new head of three classes, dropout and adapters.
RunSpec classifier(const TempDir& f, const std::string& run) {
  std::string vocab;
  for (const char* token : {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad", "so", "day", "is"})
    vocab += std::string(token) + "\n";
  write(f / "vocab.txt", vocab);
  std::string table = "text,label\n";
  for (int i = 0; i < 6; ++i) table += "so good day,fine\nbad day,poor\nday is day,none\n";
  write(f / "train.csv", table);
  write(f / "val.csv", "text,label\ngood day,fine\nso bad,poor\n");
  RunSpec spec;
  spec.model.model = test::test_data("zoo/minilm_embed_ts14/model.onnx");
  spec.data.train = f / "train.csv";
  spec.data.val = f / "val.csv";
  spec.data.text.vocab = f / "vocab.txt";
  spec.data.text.text_columns = {"text"};
  spec.output.output_dir = f / run;
  spec.data.text.max_seq_len = 16;
  spec.schedule.max_steps = 3;
  spec.model.dropout = 0.2;
  spec.device.device = "cpu";
  return spec;
}

TrainReport trained(const RunSpec& spec, const Host& host = {}) { return train(*prepare(spec, host)); }

std::string exported(const TempDir& f, const std::string& run, const std::string& weights) {
  export_run(f / run, weights, "fp32", f / "out.onnx");
  return bytes_of(f / "out.onnx");
}

}  // namespace

TEST_CASE("a finished run is exported from its folder and its model file alone", "[export]") {
  const TempDir f;
  RunSpec spec = classifier(f, "run");
  SECTION("a head") {}
  SECTION("a head with adapters") { spec.model.lora = "r=2"; }
  SECTION("a precision plan") { spec.precision.use_bf16 = true; }
  const TrainReport report = trained(spec);
  for (const char* name : {"train.csv", "val.csv", "vocab.txt"}) fs::remove(f / name);
  CHECK((exported(f, "run", "last") == bytes_of(report.model)));
}

TEST_CASE("best and averaged weights are those that training would have exported", "[export]") {
  const TempDir f;
  RunSpec spec = classifier(f, "run");
  spec.optimization.ema_decay = {"0.5"};
  spec.evaluation.eval_steps = 1;
  spec.optimization.lr = 1e-2;
  for (const char* which : {"best", "ema"}) {
    spec.output.output_dir = f / which;
    spec.output.export_weights = which;
    const TrainReport report = trained(spec);
    CHECK((exported(f, which, which) == bytes_of(report.model)));
  }
}

TEST_CASE("a run that was stopped is exported as one that ended there", "[export]") {
  const TempDir f;
  RunSpec spec = lenet(f, "short");
  spec.schedule.max_steps = 2;
  const std::string two_steps = bytes_of(trained(spec).model);
  spec = lenet(f, "run");
  spec.schedule.max_steps = 4;
  trained(spec);
  // Restores the folder to a state that it had during the run; every step is an epoch here.
  for (const char* step : {"3", "4"}) fs::remove_all(f / "run/checkpoints/checkpoint-" + step);
  for (const char* name : {"model.onnx", "run.json"}) fs::remove(f / "run" + "/" + name);
  fs::remove(spec.data.train);
  CHECK((exported(f, "run", "last") == two_steps));
  const Error none = error_of([&] { export_run(f / "run", "best", "fp32", f / "x.onnx"); });
  CHECK(none.id() == "E_EXPORT_WEIGHTS");
  fs::rename(f / "model.onnx", f / "moved.onnx");
  const Error gone = error_of([&] { export_run(f / "run", "last", "fp32", f / "x.onnx"); });
  CHECK(gone.id() == "E_RUN_MODEL");
  CHECK_THAT(gone.fact(), ContainsSubstring("model.onnx' is not there"));
  write(f / "run" + "/export.safetensors", "no record");
  CHECK(error_of([&] { export_run(f / "run", "last", "fp32", f / "x.onnx"); }).exit() == Exit::checkpoint);
  CHECK_FALSE(fs::exists(f / "x.onnx"));
}

TEST_CASE("the library prints nothing; what there is to say goes to the host", "[run]") {
  const TempDir f;
  RunSpec spec = lenet(f, "run");
  spec.schedule.max_steps = 2;
  std::ostringstream out, err;
  auto *const cout = std::cout.rdbuf(out.rdbuf()), *const cerr = std::cerr.rdbuf(err.rdbuf());
  std::vector<std::string> said;
  std::vector<int64_t> steps;
  Host host;
  host.log = Log([&](Level, const std::string& text) { said.push_back(text); });
  host.progress = [&](const ProgressState& s) { steps.push_back(s.over ? -1 : s.step); };
  try {
    trained(spec, host);
  } catch (...) {
    std::cout.rdbuf(cout);
    std::cerr.rdbuf(cerr);
    throw;
  }
  std::cout.rdbuf(cout);
  std::cerr.rdbuf(cerr);
  CHECK(out.str().empty());
  CHECK(err.str().empty());
  CHECK(steps == std::vector<int64_t>{1, 2, -1});
  CHECK_FALSE(said.empty());
}

TEST_CASE("a library's run resumes only with what it began with", "[run]") {
  const TempDir f;
  RunSpec spec = lenet(f, "run");
  spec.schedule.max_steps = 2;
  trained(spec);
  spec.output.resume = "auto";
  RunSpec other = spec;
  other.optimization.lr = 1;
  other.optimization.clip_mode = "inf";
  const Error e = error_of([&] { trained(other); });
  CHECK(e.exit() == Exit::checkpoint);
  CHECK_THAT(e.fact(), ContainsSubstring("lr was 5e-05, is 1") && ContainsSubstring("clip_mode was norm, is inf"));
  spec.device.threads = 1;
  CHECK(trained(spec).result.steps == 2);
}

TEST_CASE("a default gives way, what was asked for does not", "[run]") {
  RunSpec spec;
  CHECK_FALSE(is_set(spec, setting_named("max_seq_len")));
  CHECK(suggest_texts(spec, setting_named("max_seq_len"), {"64"}));
  CHECK(*spec.data.text.max_seq_len == 64);
  CHECK_FALSE(suggest_texts(spec, setting_named("max_seq_len"), {"many"}));
  spec.data.text.max_seq_len = 32;
  CHECK_FALSE(suggest_texts(spec, setting_named("max_seq_len"), {"64"}));
  CHECK(*spec.data.text.max_seq_len == 32);
}

TEST_CASE("an export that cannot be made is refused before the first step", "[export]") {
  const TempDir f;
  RunSpec spec = lenet(f, "run");
  spec.schedule.max_steps = 2;
  spec.output.export_precision = "fp16";
  const auto run = prepare(spec);
  for (SourceValue& v : run->graph().values) {  // sets a weight to a number that exceeds fp16
    if (v.kind == SourceKind::parameter && v.data.rank() == 2) v.data.as_mutable<float>()[0] = 1e6F;
  }
  const Error e = error_of([&] { train(*run); });
  CHECK(e.id() == "E_EXPORT_RANGE");
  CHECK_THAT(std::string(e.what()), ContainsSubstring("before training"));
  CHECK_FALSE(fs::exists(f / "run/metrics.jsonl"));
  CHECK_FALSE(fs::exists(f / "run/model.onnx"));
}

TEST_CASE("a model that training made too large for fp16 is written in fp32", "[export]") {
  const TempDir f;
  RunSpec spec = lenet(f, "run");
  spec.schedule.max_steps = 1;
  spec.optimization.optimizer = "sgd";
  spec.optimization.max_grad_norm = 0;
  spec.optimization.lr = 1e7;
  spec.output.export_precision = "fp16";
  std::string said;
  const Log log([&](Level level, const std::string& text) {
    if (level == Level::warning) said += text + "\n";
  });
  const TrainReport report = trained(spec, {log, {}, {}});
  CHECK(fs::exists(report.model));
  CHECK_THAT(said, ContainsSubstring("W_EXPORT_PRECISION"));
}
