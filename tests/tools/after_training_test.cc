// Failures after the last step still write the model and end with exit 0 and a warning. Impossible combinations of data
// and flags are refused before the first step, with a hint.
#include <catch2/catch_all.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/safetensors.h"
#include "base/shape.h"
#include "tests/importer/models.h"
#include "tests/support.h"
#include "tests/tools/verb_run.h"

using namespace amp;
using namespace amp::test;
using Catch::Matchers::ContainsSubstring;

namespace {

const char* const kProduct = R"(<ir_version: 8, opset_import: ["" : 17]>
    g (float[N,2] x) => (float[N,2] y)
    <float[2,2] w = {1,0.25,-0.5,1.5}> { y = MatMul (x, w) })";

// Writes one row (x0, x1) whose two targets are `label`.
std::string row(const TempDir& f, const std::string& name, float x0, float x1, float label) {
  write_safetensors(f / name, {{"x", HostTensor::of<float>({1, 2}, {x0, x1})},
                               {"label", HostTensor::of<float>({1, 2}, {label, label})}});
  return f / name;
}

}  // namespace

// The step adds 1e4 to each weight (the gradient of mse is y - label). For x = (1, -1) the two products cancel in fp32.
// In fp16 they do not, because neighboring fp16 numbers near 1e4 are 8 apart. The untrained model agreed with its fp16
// file, so the difference must be due to rounding.
TEST_CASE("an fp16 file that rounds too much after training is written with a warning", "[after_training]") {
  const TempDir f;
  const std::string model = save(f, parse(kProduct));
  for (const bool again : {false, true}) {  // again: a second run replaces the first with --overwrite
    std::vector<std::string> words = {model,
                                      "--train",
                                      row(f, "train.safetensors", 1, 1, 1e5f),
                                      "--val",
                                      row(f, "val.safetensors", 1, -1, 0),
                                      "--loss",
                                      "mse",
                                      "--optimizer",
                                      "sgd",
                                      "--lr",
                                      "0.1",
                                      "--max_steps",
                                      "1",
                                      "--max_grad_norm",
                                      "0",
                                      "--export_precision",
                                      "fp16",
                                      "--output_dir",
                                      f / "run"};
    if (again) words.emplace_back("--overwrite");
    const Said s = must_run(words);
    CHECK_THAT(s.err, ContainsSubstring("W_EXPORT_CHECK: the model is written, but its check failed") &&
                          ContainsSubstring("--export_precision fp32"));
    CHECK(std::filesystem::exists(f / "run/model.onnx"));
    CHECK_FALSE(std::filesystem::exists(f / "run/.new-run"));
  }
  // `export` of the run writes the requested file with the same warning. In fp32 there is no warning.
  const Said low = must_run({"export", f / "run", "--out", f / "low.onnx", "--export_precision", "fp16"});
  CHECK_THAT(low.err, ContainsSubstring("W_EXPORT_CHECK"));
  CHECK(std::filesystem::exists(f / "low.onnx"));
  const Said wide = must_run({"export", f / "run", "--out", f / "wide.onnx", "--export_precision", "fp32"});
  CHECK_THAT(wide.err, !ContainsSubstring("W_EXPORT_CHECK"));
  // The run computed in fp32, so its plan has no 16-bit operations, and `export` accepts no other plan.
  const Said mixed = must_run({"export", f / "run", "--out", f / "mixed.onnx", "--export_precision", "mixed"});
  CHECK_THAT(mixed.err, ContainsSubstring("the file stays in fp32"));
  const Said other = run_verb({"export", f / "run", "--out", f / "other.onnx", "--use_fp16"});
  CHECK(other.code == 2);
  CHECK_FALSE(std::filesystem::exists(f / "other.onnx"));
}

// The file stores w in fp16 and no --export_precision is given: w becomes 1e5.
TEST_CASE("weights that outgrow a file in fp16 are written in fp32", "[after_training]") {
  const TempDir f;
  must_run({"export", save(f, parse(kProduct)), "--out", f / "half.onnx", "--export_precision", "fp16"});
  const Said s =
      must_run({f / "half.onnx", "--train", row(f, "train.safetensors", 1, 1, 1e5f), "--loss", "mse", "--optimizer",
                "sgd", "--lr", "1", "--max_grad_norm", "0", "--max_steps", "1", "--output_dir", f / "run"});
  CHECK_THAT(s.err,
             ContainsSubstring("W_EXPORT_PRECISION: the trained model cannot be written in the file's own types"));
  CHECK(std::filesystem::exists(f / "run/model.onnx"));
}

TEST_CASE("a range test that --max_minutes ends writes the curve so far", "[after_training]") {
  const TempDir f;
  const std::string model = save(f, parse(kProduct)), data = row(f, "data.safetensors", 1, 1, 1);
  const Said s = must_run({model, "--train", data, "--loss", "mse", "--lr_range_test", "100000", "--max_minutes",
                           "0.00001", "--output_dir", f / "run"});
  CHECK_THAT(s.err, ContainsSubstring("W_LR_RANGE: --max_minutes ended the search after"));
  CHECK(std::filesystem::exists(f / "run/lr_range.json"));
}

TEST_CASE("refusals of data and flags have hints", "[after_training]") {
  const TempDir f;
  const std::string model = save(f, parse(kProduct)), data = row(f, "data.safetensors", 1, 1, 1);
  const auto ids = [&](const std::vector<int64_t>& label) {
    const auto n = static_cast<int64_t>(label.size());
    const std::vector<float> x(label.size() * 2, 0.5f);
    write_safetensors(f / "ids.safetensors",
                      {{"x", HostTensor::of<float>({n, 2}, x)}, {"label", HostTensor::of<int64_t>({n}, label)}});
    return f / "ids.safetensors";
  };
  const auto refused = [&](std::vector<std::string> words, const std::string& id, const std::string& hint) {
    words.insert(words.end(), {"--output_dir", f / "run"});
    const Said s = run_verb(words);
    INFO(s.fact << " / " << s.hint);
    CHECK(s.id == id);
    CHECK_THAT(s.hint, ContainsSubstring(hint));
    CHECK_FALSE(std::filesystem::exists(f / "run/metrics.jsonl"));
  };
  refused({model, "--train", ids({0, 1, 7}), "--loss", "cross_entropy"}, "E_DATA_LABEL", "--num_labels");
  refused({model, "--train", ids({0, 1}), "--loss", "mse"}, "E_DATA_SHAPE", "--loss");
  refused({model, "--train", ids({}), "--loss", "cross_entropy"}, "E_DATA_EMPTY", "row");
  // In this file, the branch that is not taken also reads the classifier's bias, so the head cannot be replaced.
  write_safetensors(f / "wide.safetensors", {{"x", HostTensor::of<float>({2, 12}, std::vector<float>(24, 0.5f))},
                                             {"label", HostTensor::of<int64_t>({2}, {0, 6})}});
  refused({test_data("importer/struct_if_hand16.onnx"), "--train", f / "wide.safetensors", "--loss", "cross_entropy",
           "--num_labels", "7"},
          "E_EXPORT_CLASSIFIER", "--num_labels");
  const std::string none = save(f, parse(R"(<ir_version: 8, opset_import: ["" : 17]>
      g (float[N,2] x) => (float[N,2] y) <float[2] w = {1,0.25}> { y = Mul (x, w) })"));
  refused({none, "--train", data, "--loss", "mse", "--lora", "r=2"}, "E_LORA", "--lora");
}

// The bad label is in the last row, which the first step does not use. For logits [N,S,C] and [N,C,L] with symbolic S
// and L, only the data's shapes determine the axis of the classes.
TEST_CASE("class ids that the model lacks are refused before the first step", "[after_training]") {
  const TempDir f;
  const auto refused = [&](const std::string& graph, const Dims& label, const std::string& name,
                           std::vector<std::string> flags, int64_t classes) {
    const std::string model = save(f, parse("<ir_version: 8, opset_import: [\"\" : 17]> g " + graph));
    const Dims in = {4, 3, 2};
    std::vector<float> x(24);
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 5) - 2;
    std::vector<int64_t> ids(static_cast<size_t>(numel(label)), 1);
    for (const int64_t bad : {classes, int64_t{-3}, classes - 1}) {
      ids.back() = bad;
      std::vector<NamedTensor> tensors = {{"x", HostTensor::of<float>(in, x)},
                                          {name, HostTensor::of<int64_t>(label, ids)}};
      if (name != "label")
        tensors.push_back({"label", HostTensor::of<int64_t>(label, std::vector<int64_t>(ids.size(), 1))});
      write_safetensors(f / "ids.safetensors", tensors);
      std::vector<std::string> words = {
          model,         "--train", f / "ids.safetensors", "--batch_size", "1",      "--shuffle=false",
          "--max_steps", "4",       "--overwrite",         "--output_dir", f / "run"};
      words.insert(words.end(), flags.begin(), flags.end());
      const Said s = run_verb(words);
      INFO(graph << " " << bad << ": " << s.fact << " / " << s.hint);
      if (bad == classes - 1) {
        CHECK(s.code == 0);
        continue;
      }
      CHECK(s.id == "E_DATA_LABEL");
      CHECK_THAT(s.hint, ContainsSubstring("--num_labels"));
      CHECK_FALSE(std::filesystem::exists(f / "run/metrics.jsonl"));
    }
    std::filesystem::remove_all(f / "run");
  };
  const std::string tokens = R"((float[N,S,2] x) => (float[N,S,4] y)
      <float[2,4] w = {1,0.25,-0.5,1.5,0.75,-0.25,1,0.5}> { y = MatMul (x, w) })";
  refused(tokens, {4, 3}, "label", {"--loss", "cross_entropy"}, 4);
  refused(tokens, {4, 3}, "label", {"--loss", "cross_entropy", "--label_smoothing", "0.1"}, 4);
  refused(tokens, {4, 3, 1}, "label", {"--loss", "focal"}, 4);
  refused(tokens, {4, 3}, "other", {"--loss", "cross_entropy", "--loss", "cross_entropy,label=other,output=y"}, 4);
  // The output is read as [N,C,L], with C = S classes.
  refused(tokens, {4, 4}, "label", {"--loss", "cross_entropy_nchw"}, 3);
  refused(R"((float[N,S,2] x) => (float[N,S] start_logits, float[N,S] end_logits)
      <float[2,1] w = {1,0.25}, float[2,1] v = {-0.5,1.5}, int64[1] last = {2}>
      { a = MatMul (x, w)  start_logits = Squeeze (a, last)  b = MatMul (x, v)  end_logits = Squeeze (b, last) })",
          {4, 2}, "label", {"--loss", "qa_span"}, 3);
}

// Two pooling windows do not fit into 3 pixels, the size with which symbolic sizes are examined first.
TEST_CASE("a network of open image sizes is checked and gets its classes at a size that fits", "[after_training]") {
  const TempDir f;
  const std::string model = save(f, parse(R"(<ir_version: 8, opset_import: ["" : 17]>
      g (float[N,1,H,W] x) => (float[N,3] y)
      <float[2,1,3,3] c = {0.3,-0.2,0.5,0.1,0.7,-0.4,0.2,-0.6,0.15,-0.35,0.45,0.25,-0.15,0.05,0.65,-0.55,0.12,0.33},
       float[3,2] w = {1,0.25,-0.5,1.5,0.75,-0.25}, float[3] b = {0.1,0.2,-0.1}>
      { h = Conv (x, c)  p = MaxPool <kernel_shape = [4, 4], strides = [4, 4]> (h)
        q = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (p)
        a = GlobalAveragePool (q)  f = Flatten (a)  y = Gemm <transB = 1> (f, w, b) })"));
  const Said s = must_run({"check", model});
  CHECK_THAT(s.out, ContainsSubstring("trains: yes"));
  std::vector<float> x(4 * 256);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 7) - 3;
  write_safetensors(f / "d.safetensors", {{"x", HostTensor::of<float>({4, 1, 16, 16}, x)},
                                          {"label", HostTensor::of<int64_t>({4}, {0, 4, 2, 3})}});
  must_run({model, "--train", f / "d.safetensors", "--loss", "cross_entropy", "--num_labels", "5", "--max_steps", "1",
            "--output_dir", f / "run"});
  CHECK(std::filesystem::exists(f / "run/model.onnx"));
}
