// --ranks: a run with several replicas equals a run of one process with a batch as large, from the same inputs to the
// same output files.
#include <catch2/catch_all.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "run/run.h"
#include "tests/errors.h"
#include "tests/support.h"

using namespace amp;
using amp::test::TempDir;

namespace {

// Returns a run of a BERT of two layers with dropout, on texts of many lengths that are padded alike.
RunSpec classifier(const TempDir& f, const std::string& run) {
  std::ofstream vocab(f / "vocab.txt");
  for (const char* token : {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad", "so", "day", "is"})
    vocab << token << "\n";
  std::ofstream table(f / "train.csv");
  table << "text,label\n";
  const char* const words[] = {"good", "so", "day", "bad", "is"};
  for (int i = 0; i < 30; ++i) {
    for (int w = 0; w <= i % 9; ++w) table << words[(i * 3 + w * w) % 5] << ' ';
    table << words[i % 2 * 3] << ',' << (i % 2 ? "poor" : "fine") << "\n";
  }
  RunSpec spec;
  spec.model.model = test::test_data("zoo/minilm_embed_ts14/model.onnx");
  spec.data.train = f / "train.csv";
  spec.data.val = f / "train.csv";
  spec.data.text.vocab = f / "vocab.txt";
  spec.data.text.text_columns = {"text"};
  spec.output.output_dir = f / run;
  spec.data.text.max_seq_len = 16;
  spec.data.text.pad_to_multiple = 16;
  spec.schedule.max_steps = 50;
  spec.optimization.lr = 1e-3;
  spec.schedule.gradient_accumulation_steps = 2;
  spec.model.dropout = 0.2;
  spec.device.device = "cpu";
  return spec;
}

std::vector<double> losses(const std::string& dir) {
  std::vector<double> out;
  std::ifstream in(dir + "/metrics.jsonl");
  for (std::string line; std::getline(in, line);) out.push_back(nlohmann::json::parse(line).at("loss").get<double>());
  return out;
}

std::string bytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

TEST_CASE("a BERT with padding removed and dropout trains on 1, 2 and 4 ranks alike", "[ranks]") {
  const TempDir f;
  const auto run = [&](int64_t ranks, const std::string& name, const std::string& lora) {
    RunSpec spec = classifier(f, name);
    spec.distribution.ranks = ranks;
    spec.schedule.batch_size = 8 / ranks;
    spec.evaluation.eval_batch_size = 8;
    spec.model.lora = lora;
    return train(*prepare(spec)).result;
  };
  const std::string lora = GENERATE("", "r=2");
  INFO("lora '" << lora << "'");
  const TrainResult one = run(1, "one", lora);
  const std::vector<double> want = losses(f / "one");
  REQUIRE(want.size() == 50);
  CHECK(want.back() < want.front());
  for (const int64_t ranks : {2, 4}) {
    INFO(ranks << " ranks");
    const std::string name = "ranks" + std::to_string(ranks);
    const TrainResult many = run(ranks, name, lora);
    const std::vector<double> got = losses(f / name);
    REQUIRE(got.size() == 50);
    // Tolerance: ranks compute fp32 sums in another order, through 50 steps of AdamW.
    for (size_t i = 0; i < 50; ++i) CHECK(std::abs(got[i] - want[i]) <= 1e-5);
    CHECK(many.samples == one.samples);
    CHECK(many.last->value("accuracy") == one.last->value("accuracy"));
    if (ranks == 4) continue;
    run(ranks, name + "again", lora);
    CHECK(bytes(f / name + "again/model.onnx") == bytes(f / name + "/model.onnx"));
  }
}

TEST_CASE("`lr_base_scale` multiplies the peak rate by the samples a step of all ranks", "[ranks]") {
  const TempDir f;
  RunSpec spec = classifier(f, "run");
  spec.distribution.ranks = 3;
  spec.schedule.batch_size = 4;  // 4 rows x 2 micro-batches x 3 ranks = 24
  spec.optimization.lr_base_size = 6;
  CHECK(prepare(spec)->config.schedule.lr == 1e-3);
  spec.optimization.lr_base_scale = "linear";
  CHECK(prepare(spec)->config.schedule.lr == Catch::Approx(4e-3).epsilon(1e-12));
  spec.optimization.lr_base_scale = "sqrt";
  CHECK(prepare(spec)->config.schedule.lr == Catch::Approx(2e-3).epsilon(1e-12));
  spec.data.text.in_tokens = true;
  spec.schedule.batch_size = 128;
  test::expect_error(
      "E_USAGE", "`in_tokens`", [&] { prepare(spec); }, Exit::usage);
}

TEST_CASE("`grad_reduce_dtype`: what 16 bits change of a run, and where they are refused", "[ranks]") {
  const TempDir f;
  const auto run = [&](const std::string& name, const std::string& sent) {
    RunSpec spec = classifier(f, name);
    spec.distribution.ranks = 2;
    spec.schedule.batch_size = 4;
    spec.distribution.grad_reduce_dtype = sent;
    train(*prepare(spec));
    return losses(f / name);
  };
  const std::vector<double> exact = run("exact", "fp32"), sent = run("sent", "bf16");
  CHECK(exact[1] != sent[1]);
  // A step of AdamW changes a weight by about the learning rate, however small the gradient is. Rounding gradients to
  // 16 bits changes the signs of few gradients, all of them tiny.
  for (size_t i = 0; i < 50; ++i) CHECK(std::abs(exact[i] - sent[i]) <= 0.02);
  run("again", "bf16");
  CHECK(bytes(f / "again/model.onnx") == bytes(f / "sent/model.onnx"));
  RunSpec spec = classifier(f, "refused");
  spec.distribution.ranks = 2;
  spec.distribution.grad_reduce_dtype = "fp16";
  test::expect_error(
      "E_USAGE", "without a loss scale", [&] { prepare(spec); }, Exit::usage);
  spec.precision.use_fp16 = true;
  CHECK(prepare(spec)->config.grad_reduce_dtype == DType::f16);
  spec.distribution.sync_every = 2;
  test::expect_error(
      "E_RANKS_SETTING", "`grad_reduce_dtype`", [&] { prepare(spec); }, Exit::usage);
}

TEST_CASE("a trace shows sums of gradients beside backward", "[ranks]") {
  const TempDir f;
  RunSpec spec = classifier(f, "run");
  spec.distribution.ranks = 2;
  spec.schedule.batch_size = 4;
  spec.schedule.max_steps = 6;
  spec.distribution.grad_reduce_trace = f / "trace.json";
  train(*prepare(spec));
  const nlohmann::json trace = nlohmann::json::parse(bytes(spec.distribution.grad_reduce_trace));
  std::map<int, int> runs, waits, sums;
  double end_of_sums = 0, end_of_wait = 0;
  for (const nlohmann::json& e : trace.at("traceEvents")) {
    if (e.at("ph") != "X") continue;
    const int step = e.at("args").at("step");
    const std::string name = e.at("name");
    const double end = e.at("ts").get<double>() + e.at("dur").get<double>();
    CHECK(e.at("dur").get<double>() >= 0);
    if (name == "forward and backward") ++runs[step];
    if (name == "wait for sums") {
      ++waits[step];
      end_of_wait = std::max(end_of_wait, end);
    }
    if (name != "sum of gradients") continue;
    ++sums[step];
    CHECK(e.at("args").at("elements").get<int64_t>() > 0);
    end_of_sums = std::max(end_of_sums, end);
  }
  CHECK(runs.size() == 6);
  CHECK(waits.size() == 6);
  CHECK(sums.size() == 6);
  CHECK(end_of_sums <= end_of_wait + 1);  // + 1: times are whole microseconds
}

TEST_CASE("what goes wrong on one rank ends the run with its own error", "[ranks]") {
  const TempDir f;
  RunSpec spec = classifier(f, "run");
  spec.distribution.ranks = 64;
  CHECK(test::error_of([&] { prepare(spec); }).id() == "E_RANKS_SETTING");
}

TEST_CASE("a run of two ranks is resumed by one with as large a batch, and refused with another", "[ranks]") {
  const TempDir f;
  RunSpec spec = classifier(f, "run");
  spec.schedule.max_steps = 4;
  spec.distribution.ranks = 2;
  spec.schedule.batch_size = 4;
  train(*prepare(spec));
  spec.output.resume = "auto";
  spec.output.resume_schedule = "hold";
  spec.schedule.max_steps = 8;
  spec.distribution.ranks = 1;
  CHECK(test::error_of([&] { prepare(spec); }).id() == "E_CKPT_MISMATCH");
  spec.schedule.batch_size = 8;
  CHECK(train(*prepare(spec)).result.steps == 8);
  CHECK(losses(f / "run").size() == 8);
}

TEST_CASE("a ResNet with `sync_bn` trains on 1, 2 and 4 ranks alike", "[ranks]") {
  const TempDir f;
  const auto run = [&](int64_t ranks, bool together) {
    RunSpec spec;
    spec.model.model = test::test_data("zoo/resnet_train_ts17/model.onnx");
    spec.data.train = test::test_data("zoo/resnet_train_ts17/batch.safetensors");
    spec.output.output_dir = f / std::to_string(ranks) + (together ? "" : "apart");
    spec.model.batchnorm = "train";
    spec.distribution.sync_bn = together;
    spec.distribution.ranks = ranks;
    spec.schedule.batch_size = 4 / ranks;
    spec.schedule.max_steps = 4;
    spec.optimization.lr = 0.05;
    spec.optimization.optimizer = "sgd";
    spec.device.device = "cpu";
    train(*prepare(spec));
    return losses(spec.output.output_dir);
  };
  const std::vector<double> one = run(1, true), apart = run(2, false);
  CHECK(std::abs(apart[0] - one[0]) > 0.1);
  for (const int64_t ranks : {2, 4}) {
    INFO(ranks << " ranks");
    const std::vector<double> got = run(ranks, true);
    // Batch statistics of four images amplify the rounding of another order of fp32 sums from step to step.
    for (size_t i = 0; i < 4; ++i) CHECK(std::abs(got[i] - one[i]) <= (i == 0 ? 2e-6 : 2e-4));
  }
  RunSpec spec;
  spec.model.model = test::test_data("zoo/resnet_train_ts17/model.onnx");
  spec.data.train = test::test_data("zoo/resnet_train_ts17/batch.safetensors");
  spec.output.output_dir = f / "refused";
  spec.distribution.sync_bn = true;
  test::expect_error(
      "E_USAGE", "`batchnorm` train", [&] { prepare(spec); }, Exit::usage);
}
