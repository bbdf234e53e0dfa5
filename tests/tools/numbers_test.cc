// The numbers printed by a run and by eval: they are computed on the whole dataset and on the exported file, with the
// settings of the training.
#include <catch2/catch_all.hpp>
#include <cmath>

#include "base/npz.h"
#include "tests/importer/models.h"
#include "tests/support.h"
#include "tests/tools/verb_run.h"

using namespace amp;
using namespace amp::test;

namespace {

HostTensor waves(Dims dims, double step, double scale = 1, double shift = 0) {
  HostTensor t = HostTensor::empty(DType::f32, std::move(dims));
  for (int64_t i = 0; i < t.numel(); ++i)
    t.as_mutable<float>()[i] = static_cast<float>(shift + scale * std::sin(step * static_cast<double>(i + 1)));
  return t;
}

const char* const kLinear =
    "<ir_version: 8, opset_import: [\"\": 17]> net (float[B,4] x) => (float[B,3] y) <float[4,3] w = {0.5,-1,0.25, "
    "1,0.75,-0.5, -0.25,0.5,1, 0.125,-0.75,0.5}> { h = MatMul(x, w) y = Identity(h) }";
const char* const kTokens =
    "<ir_version: 8, opset_import: [\"\": 17]> net (int64[B,S] ids) => (float[B,S,5] logits) <float[5,4] e = "
    "{0.1,0.2,-0.3,0.4,-0.5,0.6,0.7,-0.8,0.9,1,-1.1,1.2,0.3,-0.2,0.1,0.5,-0.6,0.4,0.8,-0.9}, float[4,5] w = "
    "{0.2,-0.1,0.4,0.3,-0.2,0.5,0.6,-0.7,0.1,0.9,-0.4,0.8,0.2,-0.5,0.3,0.7,-0.6,0.1,0.4,-0.3}> { x = Gather(e, ids) "
    "logits = MatMul(x, w) }";

std::string write(const TempDir& f, const std::string& name, const std::vector<NamedTensor>& tensors) {
  write_tensor_file(f / name, tensors);
  return f / name;
}

nlohmann::json evaluated(const std::string& model, const std::string& data, std::vector<std::string> more = {}) {
  std::vector<std::string> words = {"eval", model, "--val", data};
  words.insert(words.end(), more.begin(), more.end());
  const Said s = run_verb(words);
  INFO(s.fact << s.hint << s.err);
  REQUIRE(s.code == 0);
  return nlohmann::json::parse(s.out);
}

nlohmann::json trained(const TempDir& f, const std::string& model, const std::string& data,
                       std::vector<std::string> more) {
  std::vector<std::string> words = {model,      "--train", data,      "--val", data,  "--output_dir", f / "run",
                                    "--epochs", "1",       "--quiet", "--lr",  "0.1", "--overwrite"};
  words.insert(words.end(), more.begin(), more.end());
  const Said s = run_verb(words);
  INFO(s.fact << s.hint << s.err);
  REQUIRE(s.code == 0);
  return nlohmann::json::parse(bytes_of(f / "run/run.json"));
}

}  // namespace

TEST_CASE("the root of a mean is taken over all items, not batch by batch") {
  const TempDir f;
  const std::string model = save(f, test::parse(kLinear));
  const std::string data =
      write(f, "d.safetensors", {{"x", waves({10, 4}, 0.7)}, {"label", waves({10, 3}, 1.3, 0.6, 1.5)}});
  for (const char* loss : {"rmspe", "rmspe_exp"}) {
    const double whole = evaluated(model, data, {"--loss", loss, "--batch_size", "10"})["loss"].get<double>();
    for (const char* rows : {"1", "3", "4"})  // batch sizes with which the last batch is smaller
      CHECK(evaluated(model, data, {"--loss", loss, "--batch_size", rows})["loss"].get<double>() ==
            Catch::Approx(whole).epsilon(1e-6));
  }
  const std::vector<double> x = waves({10, 4}, 0.7).to_doubles(), y = waves({10, 3}, 1.3, 0.6, 1.5).to_doubles(),
                            w = {0.5, -1, 0.25, 1, 0.75, -0.5, -0.25, 0.5, 1, 0.125, -0.75, 0.5};
  double sum = 0;
  for (size_t i = 0; i < 10; ++i) {
    for (size_t j = 0; j < 3; ++j) {
      double o = 0;
      for (size_t k = 0; k < 4; ++k) o += x[i * 4 + k] * w[k * 3 + j];
      sum += std::pow((y[i * 3 + j] - o) / y[i * 3 + j], 2);
    }
  }
  CHECK(evaluated(model, data, {"--loss", "rmspe", "--batch_size", "3"})["loss"].get<double>() ==
        Catch::Approx(std::sqrt(sum / 30)).epsilon(1e-5));
}

TEST_CASE("final metrics are the exported file's, whatever the run computed in") {
  const TempDir f;
  const std::string model = save(f, test::parse(kLinear));
  const std::string data = write(f, "d.safetensors", {{"x", waves({16, 4}, 0.7)}, {"label", waves({16, 3}, 1.3)}});
  const nlohmann::json run = trained(f, model, data, {"--loss", "mse", "--use_bf16", "--batch_size", "4"});
  const double last = run["final_metrics"]["loss"], as_trained = run["metrics_as_trained"]["loss"];
  CHECK(last != as_trained);
  CHECK(last == evaluated(f / "run/model.onnx", data, {"--batch_size", "4"})["loss"].get<double>());
  CHECK(as_trained == json_lines(f / "run/eval.jsonl").back()["loss"].get<double>());
  // The limit of the gate (--require) is between the two numbers. The number of the exported file must be compared with
  // it.
  std::ostringstream bound;
  bound.precision(17);
  bound << "loss<=" << (last + as_trained) / 2;
  const Said gate =
      run_verb({model,          "--train", data,        "--val",    data,  "--output_dir", f / "run", "--overwrite",
                "--epochs",     "1",       "--quiet",   "--lr",     "0.1", "--loss",       "mse",     "--use_bf16",
                "--batch_size", "4",       "--require", bound.str()});
  CHECK(gate.code == (last < as_trained ? 0 : 12));
  // In fp32 the trained and the exported model give the same number.
  CHECK(trained(f, model, data, {"--loss", "mse", "--batch_size", "4"})["metrics_as_trained"].is_null());
}

TEST_CASE("a file in half precision is judged as it computes") {
  const TempDir f;
  const std::string model = save(f, test::parse(kLinear));
  const std::string data = write(f, "d.safetensors", {{"x", waves({16, 4}, 0.7)}, {"label", waves({16, 3}, 1.3)}});
  const std::vector<std::string> flags = {"--loss", "mse", "--batch_size", "4", "--export_precision", "fp16"};
  const nlohmann::json run = trained(f, model, data, flags);
  const std::string file = f / "run/model.onnx";
  // The exported file rounds weights, product and output to fp16, as eval does if everything is computed in fp16.
  CHECK(run["final_metrics"]["loss"].get<double>() ==
        evaluated(file, data, {"--dtype", "fp16", "--amp_level", "O3", "--batch_size", "4"})["loss"].get<double>());
  CHECK(run["final_metrics"]["loss"] != run["metrics_as_trained"]["loss"]);
}

TEST_CASE("an exported model knows its loss, and flags overrule it") {
  const TempDir f;
  const std::string model = save(f, test::parse(kTokens));
  std::vector<int64_t> ids(8 * 6);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int64_t>(i * i % 5);
  const HostTensor t = HostTensor::of<int64_t>({8, 6}, ids);
  const std::string data = write(f, "d.npz", {{"ids", t}, {"label", t}});
  const nlohmann::json run = trained(f, model, data, {"--loss", "causal_lm,label_smoothing=0.1", "--batch_size", "4"});
  const std::string file = f / "run/model.onnx", bytes = bytes_of(file);
  const nlohmann::json again = evaluated(file, data);
  CHECK(again["loss"].get<double>() == Catch::Approx(run["final_metrics"]["loss"].get<double>()).epsilon(1e-6));
  CHECK(again.contains("perplexity"));
  CHECK(evaluated(file, data, {"--loss", "cross_entropy"})["loss"] != again["loss"]);
  CHECK_FALSE(evaluated(file, data, {"--task", "classification", "--loss", "cross_entropy"}).contains("perplexity"));
  // The exported file does not contain the time or the path of the run.
  trained(f, model, data,
          {"--loss", "causal_lm,label_smoothing=0.1", "--batch_size", "4", "--output_dir", f / "other"});
  CHECK(bytes_of(f / "other/model.onnx") == bytes);
  CHECK(bytes.find(f.path.string()) == std::string::npos);
}

TEST_CASE("eval.jsonl's epoch has its fraction") {
  const TempDir f;
  const std::string data = write(f, "d.safetensors", {{"x", waves({16, 4}, 0.7)}, {"label", waves({16, 3}, 1.3)}});
  trained(f, save(f, test::parse(kLinear)), data,
          {"--loss", "mse", "--batch_size", "4", "--epochs", "1.5", "--eval_steps", "1"});
  const auto lines = json_lines(f / "run/eval.jsonl"), steps = json_lines(f / "run/metrics.jsonl");
  REQUIRE(lines.size() == 6);
  for (size_t i = 0; i < 6; ++i) {
    CHECK(lines[i]["epoch"].get<double>() == static_cast<double>(i + 1) / 4);
    CHECK(lines[i]["epoch"] == steps[i]["epoch"]);
  }
}

TEST_CASE("values of another range than the training's are refused or named") {
  const TempDir f;
  const std::string model = save(f, test::parse(kLinear));
  const std::string data =
      write(f, "d.safetensors", {{"x", waves({16, 4}, 0.7, 0.5, 0.5)}, {"label", waves({16, 3}, 1.3)}});
  std::vector<uint8_t> pixels(64);
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<uint8_t>(i * 37 % 256);
  const std::string bytes =
      write(f, "u.npz", {{"x", HostTensor::of<uint8_t>({16, 4}, pixels)}, {"label", waves({16, 3}, 1.3)}});
  const std::string far = write(f, "far.npz", {{"x", waves({16, 4}, 0.7, 100)}, {"label", waves({16, 3}, 1.3)}});
  trained(f, model, data, {"--loss", "mse"});
  const std::string file = f / "run/model.onnx";
  const Said refused = run_verb({"eval", file, "--val", bytes});
  CHECK(refused.id == "E_DATA_RANGE");
  CHECK(refused.code == 5);
  CHECK(run_verb({"predict", file, "--inputs", bytes, "--out", f / "p.npz"}).id == "E_DATA_RANGE");
  CHECK(run_verb({"eval", file, "--val", far}).err.find("W_DATA_RANGE") != std::string::npos);
  CHECK(run_verb({"eval", file, "--val", data}).err.find("W_DATA_RANGE") == std::string::npos);
  CHECK(run_verb({model, "--train", data, "--val", bytes, "--loss", "mse", "--output_dir", f / "other"}).id ==
        "E_DATA_RANGE");
}

TEST_CASE("predict writes what the extension says") {
  const TempDir f;
  const std::string model = save(f, test::parse(kLinear));
  const std::string data = write(f, "d.safetensors", {{"x", waves({5, 4}, 0.7)}});
  const auto predict = [&](const std::string& out) {
    return run_verb({"predict", model, "--inputs", data, "--out", f / out});
  };
  for (const char* out : {"p.safetensors", "p.npz", "y.npy"}) REQUIRE(predict(out).code == 0);
  CHECK(bytes_of(f / "p.npz").substr(0, 2) == "PK");
  CHECK(bytes_of(f / "y.npy").substr(1, 5) == "NUMPY");
  const auto want = read_tensor_file(f / "p.safetensors");
  for (const char* out : {"p.npz", "y.npy"}) {
    const auto got = read_tensor_file(f / out);
    REQUIRE(got.size() == 1);
    CHECK(got[0].name == "y");
    CHECK(got[0].tensor.dims() == want[0].tensor.dims());
    CHECK(got[0].tensor.to_doubles() == want[0].tensor.to_doubles());
  }
  for (const char* out : {"p.csv", "p", "p.npz.bak"}) {
    CHECK(predict(out).id == "E_FILE_TYPE");
    CHECK_FALSE(std::filesystem::exists(f / out));
  }
}

TEST_CASE("a label that is no class is found before the first step, with its file and place") {
  const TempDir f;
  const std::string model =
      save(f, test::parse("<ir_version: 8, opset_import: [\"\": 17]> net (float[B,1,2,2] x) => (float[B,2,2,2] y) "
                          "<float[2,1,1,1] w = {0.5,-1}> { y = Conv(x, w) }"));
  std::vector<int64_t> ids(16);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int64_t>(i % 2);
  ids[13] = 2;
  const auto data = [&](const std::string& name) {
    return write(f, name, {{"x", waves({4, 1, 2, 2}, 0.7)}, {"label", HostTensor::of<int64_t>({4, 2, 2}, ids)}});
  };
  const std::string bad = data("bad.npz");
  ids[13] = 255;
  const std::string ignored = data("ignored.npz");
  const auto run = [&](const std::string& file, const std::string& loss) {
    return run_verb({model, "--train", file, "--task", "segmentation", "--loss", loss, "--output_dir", f / "run",
                     "--overwrite", "--epochs", "1", "--quiet", "--batch_size", "2"});
  };
  const Said s = run(bad, "cross_entropy_nchw");
  CHECK(s.id == "E_DATA_LABEL");
  CHECK(s.fact.find("bad.npz") != std::string::npos);
  CHECK(s.fact.find("[3,0,1]") != std::string::npos);
  CHECK(run(ignored, "cross_entropy_nchw").id == "E_DATA_LABEL");
  CHECK(run(ignored, "cross_entropy_nchw,ignore_index=255").code == 0);
}
