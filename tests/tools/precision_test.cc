// Precision through the verbs: loss scaling of `grad`, `plan --calibrate` on a text table, `export` of a run with a
// calibrated plan, binary cross-entropy on probabilities under 16-bit plans, and the message of a diverging run.
#include <catch2/catch_all.hpp>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/safetensors.h"
#include "tests/importer/models.h"
#include "tests/support.h"
#include "tests/tools/verb_run.h"

using namespace amp;
using namespace amp::test;
using Catch::Matchers::ContainsSubstring;
using nlohmann::json;

namespace {

Said run(const std::vector<std::string>& words) { return must_run(words); }

std::vector<float> waves(int64_t n, double step, double scale = 1) {
  std::vector<float> v;
  for (int64_t i = 0; i < n; ++i) v.push_back(static_cast<float>(scale * std::sin(step * static_cast<double>(i + 1))));
  return v;
}

// Returns random values, because a sinusoid would be taken for a table of positions.
std::vector<float> weights(int64_t n, double step, double scale = 1) {
  std::vector<float> out;
  for (int64_t i = 1; i <= n; ++i)
    out.push_back(static_cast<float>(scale * std::sin(step * static_cast<double>(i * i + 3 * i))));
  return out;
}
std::string numbers(int64_t n, double step) {
  std::string s;
  for (const float v : weights(n, step)) s += cat(s.empty() ? "" : ", ", v);
  return s;
}

const std::string kHeader = "<ir_version: 8, opset_import: [\"\": 17]> ";

// Returns a model of two linear layers: x [B,4], 8 hidden units, y [B,3].
std::string two_layers(const TempDir& f, const std::string& last = "y = Identity(l)") {
  return save(f, test::parse(kHeader + "net (float[B,4] x) => (float[B,3] y) <float[4,8] w1 = {" + numbers(32, 0.7) +
                             "}, float[8,3] w2 = {" + numbers(24, 1.1) +
                             "}> { h = MatMul(x, w1) a = Relu(h) l = MatMul(a, w2) " + last + " }"));
}

std::string tensors(const TempDir& f, std::vector<float> label, double x = 1) {
  write_safetensors(f / "data.safetensors", {{"x", HostTensor::of<float>({16, 4}, waves(64, 0.3, x))},
                                             {"label", HostTensor::of<float>({16, 3}, std::move(label))}});
  return f / "data.safetensors";
}

struct Grad {
  double loss = 0, scale = 1;
  std::vector<double> w1;
  double error(const Grad& want) const {  // relative error of the gradient of w1, 2-norm
    double d = 0, n = 0;
    for (size_t i = 0; i < w1.size(); ++i) {
      d += (w1[i] - want.w1[i]) * (w1[i] - want.w1[i]);
      n += want.w1[i] * want.w1[i];
    }
    return std::sqrt(d / n);
  }
};

Grad grad(const TempDir& f, const std::string& data, std::vector<std::string> more) {
  std::vector<std::string> words = {"grad", f / "model.onnx", "--inputs", data, "--out", f / "grad.safetensors"};
  words.insert(words.end(), more.begin(), more.end());
  const json printed = json::parse(run(words).out);
  Grad g;
  g.loss = printed["loss"].is_number() ? printed["loss"].get<double>() : NAN;
  g.scale = printed.value("loss_scale", 1.0);
  g.w1 = read_safetensors(f / "grad.safetensors").find("w1")->to_doubles();
  return g;
}

void write_table(const TempDir& f) {
  write_bytes(f / "vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\ngood\nbad\nfilm\na\nthe\n");
  std::string table = "text,sentiment\n";
  for (int i = 0; i < 24; ++i)
    table += i % 3 == 0 ? "a good film,pos\n" : i % 3 == 1 ? "the bad film,neg\n" : "film,so\n";
  write_bytes(f / "t.csv", table);
}

// Returns a model that applies two layers to the mean of the vectors of token ids.
std::string bag_of_words(const TempDir& f, double scale) {
  std::string big;
  for (const float v : weights(64, 0.9, scale)) big += cat(big.empty() ? "" : ", ", v);
  return save(f,
              test::parse(kHeader + "net (int64[B,S] input_ids) => (float[B,3] logits) <float[10,8] table = {" +
                          numbers(80, 0.5) + "}, float[8,8] w1 = {" + big + "}, float[8,8] w2 = {" + big +
                          "}, float[8,3] w3 = {" + numbers(24, 1.1) +
                          "}, float[8] g = {1,1,1,1,1,1,1,1}, float[8] b = {0,0,0,0,0,0,0,0}>" +
                          "{ e = Gather(table, input_ids) m = ReduceMean<axes=[1], keepdims=0>(e) up = MatMul(m, w1) "
                          "down = MatMul(up, w2) n = LayerNormalization(down, g, b) logits = MatMul(n, w3) }"));
}

std::vector<std::string> with_table(const TempDir& f, std::vector<std::string> words) {
  for (const std::string& w :
       {std::string("--vocab"), f / "vocab.txt", std::string("--text_columns"), std::string("text"),
        std::string("--label_column"), std::string("sentiment"), std::string("--batch_size"), std::string("8"),
        std::string("--dropout"), std::string("0")}) {
    words.push_back(w);
  }
  return words;
}

}  // namespace

TEST_CASE("grad scales the loss down from the first scale until all is finite, and writes unscaled gradients",
          "[precision]") {
  const TempDir f;
  two_layers(f);
  const std::string data = tensors(f, std::vector<float>(48, 60.0f));
  const Grad want = grad(f, data, {"--loss", "mse"});
  CHECK(want.scale == 1);
  const Grad half = grad(f, data, {"--loss", "mse", "--dtype", "fp16"});
  // The gradient of mse with respect to y is about -2 * 60 / 48 (targets of 60, 48 elements). Times the first scale,
  // 65536, it exceeds fp16, so the scale must fall.
  CHECK(half.scale < 65536);
  CHECK(half.scale >= 1024);
  CHECK(half.error(want) < 2e-3);
  CHECK(half.loss == Catch::Approx(want.loss).epsilon(1e-3));
  const Grad fixed = grad(f, data, {"--loss", "mse", "--dtype", "fp16", "--loss_scale", "128"});
  CHECK(fixed.scale == 128);
  CHECK(fixed.error(want) < 2e-3);
  const Grad brain = grad(f, data, {"--loss", "mse", "--dtype", "bf16"});
  CHECK(brain.scale == 1);  // no loss scaling for bf16
  CHECK(brain.error(want) < 2e-2);

  // A fixed scale is kept, with a warning. Gradients that are not finite are not written.
  const Said said = run_verb({"grad", f / "model.onnx", "--inputs", data, "--out", f / "g.safetensors", "--loss", "mse",
                              "--dtype", "fp16", "--loss_scale", "65536"});
  CHECK(said.code == static_cast<int>(Exit::numerical));
  CHECK(said.id == "E_GRADIENT_NONFINITE");
  CHECK_THAT(said.err, ContainsSubstring("not finite at the loss scale 65536"));

  // The plan's loss_scale is used. Infinite gradients that the hysteresis of the scale tolerates are not written.
  for (const auto& [text, scale] :
       std::vector<std::pair<std::string, double>>{{R"({"mode": "static", "init": 256})", 256},
                                                   {R"({"hysteresis": 3})", half.scale},
                                                   {R"({"init": 64})", 64}}) {
    write_bytes(f / "plan.json", R"({"version": 1, "extends": "O1", "dtype": "fp16", "loss_scale": )" + text + "}");
    const Grad g = grad(f, data, {"--loss", "mse", "--dtype", "fp16", "--precision_plan", f / "plan.json"});
    INFO(text);
    CHECK(g.scale == scale);
    CHECK(g.error(want) < 2e-3);
  }
}

TEST_CASE("grad keeps with a scale what scale 1 loses", "[precision]") {
  const TempDir f;
  two_layers(f);
  const std::string data = tensors(f, waves(48, 0.2));
  const Grad want = grad(f, data, {"--loss", R"({"kind": "mse", "weight": 1e-9})"});
  const Grad lost =
      grad(f, data, {"--loss", R"({"kind": "mse", "weight": 1e-9})", "--dtype", "fp16", "--loss_scale", "1"});
  const Grad kept = grad(f, data, {"--loss", R"({"kind": "mse", "weight": 1e-9})", "--dtype", "fp16"});
  CHECK(lost.error(want) == 1);  // with scale 1, all gradients are zero in fp16
  CHECK(kept.scale == 65536);
  CHECK(kept.error(want) < 0.05);
}

TEST_CASE("plan --calibrate reads a text table, and the run takes the plan; export writes the measured run again",
          "[precision]") {
  const TempDir f;
  write_table(f);
  const double scale = GENERATE(1.0, 400.0);  // inputs times 400 exceed fp16's range
  const std::string model = bag_of_words(f, scale);
  const Said planned =
      run(with_table(f, {"plan", model, "--calibrate", f / "t.csv", "--batches", "2", "--out", f / "plan.json"}));
  CHECK_THAT(planned.err, ContainsSubstring("calibration: O2"));
  const json plan = json::parse(bytes_of(f / "plan.json"));
  CHECK(plan["dtype"] == "fp16");
  std::map<std::string, json> nodes;
  for (const json& n : plan["nodes"]) nodes[n["op"].get<std::string>() + n["name"].get<std::string>()] = n;
  CHECK(plan["nodes"].size() == 6);
  bool reason = false;
  for (const json& r : plan["rules"]) reason = reason || r["why"].get<std::string>().find("65504") != std::string::npos;
  CHECK(reason == (scale > 1));

  const std::vector<std::string> job = {model, "--train", f / "t.csv", "--val",   f / "t.csv",  "--epochs",
                                        "8",   "--lr",    "0.02",      "--quiet", "--overwrite"};
  auto train = [&](std::vector<std::string> more) {
    std::vector<std::string> words = job;
    words.insert(words.end(), more.begin(), more.end());
    run(with_table(f, words));
  };
  train({"--precision_plan", f / "plan.json", "--output_dir", f / "planned"});
  train({"--use_fp16", "--amp_level", "auto", "--calibrate_batches", "2", "--output_dir", f / "auto", "--ema_decay",
         "0.5"});
  for (const char* name : {"planned", "auto"}) {
    const std::string dir = f / name;
    const json report = json::parse(bytes_of(dir + "/run.json"));
    CHECK(report["precision"]["dtype"] == "float16");
    CHECK(report["final_metrics"]["loss"].get<double>() < report["initial_metrics"]["loss"].get<double>());
    CHECK(report["steps"]["skipped"].get<int>() <= 2);
  }
  // Exports the weights again, from the checkpoint, with the run's plan.
  const std::string measured = bytes_of(f / "auto/precision_plan.json");
  run({"export", f / "auto", "--out", f / "last.onnx"});
  CHECK(bytes_of(f / "last.onnx") == bytes_of(f / "auto/model.onnx"));
  run({"export", f / "auto", "--out", f / "ema.onnx", "--export_weights", "ema"});
  CHECK(bytes_of(f / "ema.onnx") != bytes_of(f / "last.onnx"));
  CHECK(bytes_of(f / "auto/precision_plan.json") == measured);
  // Exports with the plan's types: 16-bit as in the plan, and therefore smaller.
  run({"export", f / "auto", "--out", f / "mixed.onnx", "--export_precision", "mixed"});
  CHECK(bytes_of(f / "mixed.onnx").size() < bytes_of(f / "last.onnx").size());
  CHECK_NOTHROW(import_model(f / "mixed.onnx"));
  // A run whose plan is missing is calibrated again rather than refused.
  std::filesystem::remove(f / "auto/precision_plan.json");
  run({"export", f / "auto", "--out", f / "again.onnx"});
  CHECK(bytes_of(f / "again.onnx") == bytes_of(f / "last.onnx"));
}

TEST_CASE("binary cross-entropy on probabilities moves to the logits under every 16-bit plan", "[precision]") {
  const TempDir f;
  two_layers(f, "y = Sigmoid(l)");
  std::vector<float> label;
  for (int i = 0; i < 48; ++i) label.push_back(static_cast<float>(i * 5 % 7 < 3));
  const std::string data = tensors(f, label), far = [&] {
    const std::string path = f / "far.safetensors";
    write_safetensors(path, {{"x", HostTensor::of<float>({16, 4}, waves(64, 0.3, 100))},
                             {"label", HostTensor::of<float>({16, 3}, label)}});
    return path;
  }();
  const std::string level = GENERATE("O1", "O2", "O3", "pytorch", "tensorflow", "paddle", "apex");
  const std::string type = GENERATE("fp16", "bf16");
  INFO(level << ' ' << type);
  // The run moves the loss to the logits. So in its plan the Sigmoid is not computed, and the products are 16-bit
  // without a cast between them.
  run({f / "model.onnx", "--train", data, type == "fp16" ? "--use_fp16" : "--use_bf16", "--amp_level", level,
       "--batch_size", "8", "--epochs", "1", "--output_dir", f / "run", "--overwrite", "--quiet"});
  const json plan = json::parse(bytes_of(f / "run/precision_plan.json"));
  REQUIRE(plan["nodes"].size() == 4);
  for (const json& n : plan["nodes"]) {
    INFO(n.dump());
    if (n["op"] == "Sigmoid") {
      CHECK(n["storage"].empty());
      CHECK(n["bytes"] == 0);
    }
    if (n["op"] == "MatMul") CHECK(n["compute"] == type);
    for (const json& c : n["casts"]) CHECK(c["of"] == "weight");
  }
  // Saturated probabilities: 16 bits round them to 0 and 1, the logits keep loss and gradients.
  const Grad want = grad(f, far, {"--loss", "bce"});
  const Grad got = grad(f, far, {"--loss", "bce", "--dtype", type, "--amp_level", level});
  CHECK(want.loss > 10);
  CHECK(got.loss == Catch::Approx(want.loss).epsilon(0.02));
  CHECK(got.error(want) < 0.05);
}

TEST_CASE("with AMP off, and under a plan that lets nothing be low, a big project's loop writes the same file",
          "[precision]") {
  const TempDir f;
  const std::string recipe = source_root() + "/models/big_project", images = source_root() + "/models/lenet/sample/";
  must_run({"create", "vit", "--out", f / "vit.onnx", "--model_config",
            R"({"image_size": 28, "patch_size": 7, "num_channels": 1, "num_labels": 10, "hidden_size": 16,
                "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32})"});
  write_bytes(f / "deny.json", R"({"version": 1, "extends": "none", "propagation": "paint", "deny": ["*"]})");
  const auto trained = [&](const std::string& name, std::vector<std::string> precision) {
    std::vector<std::string> words = {f / "vit.onnx",
                                      "--config",
                                      recipe + "/config.json",
                                      "--train",
                                      images + "train-images-idx3-ubyte.gz",
                                      "--val",
                                      images + "t10k-images-idx3-ubyte.gz",
                                      "--limit_val",
                                      "64",
                                      "--max_steps",
                                      "4",
                                      "--warmup_steps",
                                      "0",
                                      "--output_dir",
                                      f / name,
                                      "--quiet"};
    words.insert(words.end(), precision.begin(), precision.end());
    must_run(words);
    return bytes_of(f / (name + "/model.onnx"));
  };
  const std::string off = trained("off", {"--use_fp16=false"});
  CHECK(trained("fp16", {"--use_fp16", "--precision_plan", f / "deny.json"}) == off);
  CHECK(trained("bf16", {"--use_bf16", "--precision_plan", f / "deny.json"}) == off);
  CHECK(trained("low", {"--use_bf16"}) != off);  // the comparison of bytes distinguishes precisions
}

TEST_CASE("a run that diverges ends with exit 8 and names parameter and node; 0 consecutive skips never stop it",
          "[precision]") {
  const TempDir f;
  two_layers(f);
  const std::string data = tensors(f, std::vector<float>(48, 1.0f), 60000);  // the first product overflows fp16
  const std::vector<std::string> job = {
      f / "model.onnx", "--train", data,      "--use_fp16",  "--loss",       "mse",     "--batch_size",           "8",
      "--max_steps",    "30",      "--quiet", "--overwrite", "--output_dir", f / "run", "--max_consecutive_skips"};
  auto with = [&](const char* limit) {
    std::vector<std::string> words = job;
    words.emplace_back(limit);
    return run(words);
  };
  try {
    with("5");
    FAIL("no error");
  } catch (const Error& e) {
    CHECK(e.exit() == Exit::numerical);
    CHECK_THAT(e.fact(), ContainsSubstring("5 steps in a row") &&
                             ContainsSubstring("first non-finite gradient is that of 'w") &&
                             ContainsSubstring("first non-finite activation is the output of node") &&
                             ContainsSubstring("(MatMul, #0"));
  }
  const Said never = with("0");
  CHECK(json::parse(bytes_of(f / "run/run.json"))["steps"]["skipped"] == 30);
}

TEST_CASE("a run that diverges on text without its padding says where", "[precision]") {
  const TempDir f;
  write_table(f);
  const std::string model = test_data("surgery/bert.onnx");
  try {
    run(with_table(f, {model, "--train", f / "t.csv", "--num_labels", "3", "--use_fp16", "--inject_overflow", "0-6",
                       "--max_consecutive_skips", "3", "--quiet", "--output_dir", f / "run"}));
    FAIL("no error");
  } catch (const Error& e) {
    CHECK(e.exit() == Exit::numerical);
    CHECK_THAT(e.fact(), ContainsSubstring("3 steps in a row"));
  }
}
