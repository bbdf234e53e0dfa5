// Losses through the command line: verbs in this process, on small models written here.
#include <catch2/catch_all.hpp>
#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "base/safetensors.h"
#include "tests/cli/cli_helper.h"
#include "tests/importer/models.h"
#include "tests/support.h"
#include "tests/tools/verb_run.h"

using namespace amp;
using namespace amp::test;
using Catch::Matchers::ContainsSubstring;

namespace {

// Returns a verb's standard output.
std::string run(const std::vector<std::string>& words) { return must_run(words).out; }

std::string error_id(const std::vector<std::string>& words) {
  try {
    run(words);
  } catch (const Error& e) {
    return e.id();
  }
  return "none";
}

HostTensor waves(Dims dims, double step, double scale = 1) {
  HostTensor t = HostTensor::empty(DType::f32, std::move(dims));
  for (int64_t i = 0; i < t.numel(); ++i)
    t.as_mutable<float>()[i] = static_cast<float>(scale * std::sin(step * static_cast<double>(i + 1)));
  return t;
}

// Writes 16 rows: x [4], class ids, a number, 0/1 for three labels.
std::string write_data(const TempDir& f, const std::string& name = "data.safetensors", double scale = 1) {
  std::vector<int64_t> ids;
  std::vector<float> yes;
  for (int64_t i = 0; i < 16; ++i) ids.push_back(i * 7 % 3);
  for (int64_t i = 0; i < 48; ++i) yes.push_back(static_cast<float>(i * 5 % 7 < 3));
  write_safetensors(f / name, {{"x", waves({16, 4}, 0.7, scale)},
                               {"label", HostTensor::of<int64_t>({16}, ids)},
                               {"labels", HostTensor::of<int64_t>({16}, ids)},
                               {"score", waves({16}, 1.3)},
                               {"yes", HostTensor::of<float>({16, 3}, yes)}});
  return f / name;
}

const std::string kWeights = "<float[4,3] w = {0.5,-1,0.25, 1,0.75,-0.5, -0.25,0.5,1, 0.125,-0.75,0.5}>";

std::string write_model(const TempDir& f, const std::string& name, const std::string& outputs, const std::string& body,
                        const std::string& inputs = "float[B,4] x") {
  return save(f,
              test::parse("<ir_version: 8, opset_import: [\"\": 17]> net (" + inputs + ") => (" + outputs + ") " +
                          kWeights + " { " + body + " }"),
              name);
}

struct Grad {
  double loss = 0;
  std::vector<double> w;
};
Grad grad(const TempDir& f, const std::string& model, const std::string& data, std::vector<std::string> more) {
  std::vector<std::string> words = {"grad", model, "--inputs", data, "--out", f / "grad.safetensors"};
  words.insert(words.end(), more.begin(), more.end());
  Grad g;
  const nlohmann::json printed = nlohmann::json::parse(run(words));
  g.loss = printed["loss"].is_number() ? printed["loss"].get<double>() : NAN;
  g.w = read_safetensors(f / "grad.safetensors").find("w")->to_doubles();
  return g;
}
void close(const Grad& a, const Grad& b, double tolerance = 1e-6) {
  CHECK(a.loss == Catch::Approx(b.loss).epsilon(tolerance));
  REQUIRE(a.w.size() == b.w.size());
  for (size_t i = 0; i < a.w.size(); ++i) CHECK(std::abs(a.w[i] - b.w[i]) <= tolerance);
}

std::vector<std::string> training(const TempDir& f, const std::string& model, const std::string& data,
                                  std::vector<std::string> more) {
  std::vector<std::string> words = {model,     "--train",     data,      "--val",        data, "--output_dir",
                                    f / "run", "--overwrite", "--quiet", "--batch_size", "4",  "--epochs",
                                    "2",       "--lr",        "0.1",     "--optimizer",  "sgd"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}
nlohmann::json report(const TempDir& f) { return nlohmann::json::parse(bytes_of(f / "run/run.json")); }

}  // namespace

TEST_CASE("a trailing softmax or sigmoid is bypassed: the same gradients, and finite ones where probabilities are 0") {
  const TempDir f;
  const std::string data = write_data(f), far = write_data(f, "far.safetensors", 300);
  const std::string logits = write_model(f, "logits.onnx", "float[B,3] y", "y = MatMul(x, w)");
  const std::string soft = write_model(f, "soft.onnx", "float[B,3] y", "l = MatMul(x, w) y = Softmax(l)");
  const std::string log = write_model(f, "log.onnx", "float[B,3] y", "l = MatMul(x, w) y = LogSoftmax(l)");
  const std::string sigmoid = write_model(f, "sigmoid.onnx", "float[B,3] y", "l = MatMul(x, w) y = Sigmoid(l)");
  const Grad want = grad(f, logits, data, {"--loss", "cross_entropy"});
  close(grad(f, soft, data, {"--loss", "cross_entropy"}), want);
  close(grad(f, soft, data, {"--loss", "nll_probs"}), want);
  close(grad(f, soft, data, {"--loss", "nll_probs,bypass=false"}), want);
  close(grad(f, log, data, {}), want);
  CHECK(std::abs(grad(f, soft, data, {"--loss", "cross_entropy,bypass=false"}).loss - want.loss) > 0.01);
  close(grad(f, sigmoid, data, {"--loss", "bce,label=yes"}), grad(f, logits, data, {"--loss", "bce,label=yes"}));
  for (const char* type : {"fp32", "fp16"}) {
    CHECK(std::isfinite(grad(f, soft, far, {"--loss", "nll_probs", "--dtype", type}).loss));
    try {
      grad(f, soft, far, {"--loss", "nll_probs,bypass=false", "--dtype", type});
      FAIL("finite");
    } catch (const Error& e) {
      CHECK(e.exit() == Exit::numerical);
      CHECK(e.id() == "E_GRADIENT_NONFINITE");
    }
  }
}

TEST_CASE("--label_smoothing is the parameter of the losses that have it") {
  const TempDir f;
  const std::string data = write_data(f);
  const std::string model = write_model(f, "logits.onnx", "float[B,3] y", "y = MatMul(x, w)");
  const Grad want = grad(f, model, data, {"--loss", "cross_entropy,label_smoothing=0.1"});
  CHECK(std::abs(want.loss - grad(f, model, data, {"--loss", "cross_entropy"}).loss) > 1e-5);
  close(grad(f, model, data, {"--label_smoothing_factor", "0.1"}), want, 0);
  close(grad(f, model, data, {"--loss", "cross_entropy", "--smoothing", "0.1"}), want, 0);
  close(grad(f, model, data, {"--loss", "cross_entropy,label_smoothing=0.1", "--label_smoothing", "0.3"}), want, 0);
  CHECK(error_id({"grad", model, "--inputs", data, "--out", f / "g.npz", "--loss", "mse,label=yes", "--label_smoothing",
                  "0.1"}) == "E_LOSS");
}

TEST_CASE("the exported file keeps the activation that the loss passed by") {
  const TempDir f;
  const std::string soft = write_model(f, "soft.onnx", "float[B,3] y", "l = MatMul(x, w) y = Softmax(l)");
  run(training(f, soft, write_data(f), {}));
  const Imported out = import_model(f / "run/model.onnx");
  CHECK(out.graph.nodes.back().op == "Softmax");
  CHECK(report(f)["final_metrics"]["loss"].get<double>() < report(f)["initial_metrics"]["loss"].get<double>());
}

TEST_CASE("labels beyond the model's classes and batches that part pairs are refused before the first step") {
  const TempDir f;
  const std::string data = write_data(f);
  const std::string two = write_model(
      f, "two.onnx", "float[B,2] y", "p = MatMul(x, w) h = Constant<value_ints = [0, 1]>() y = Gather<axis = 1>(p, h)");
  const std::string model = write_model(f, "three.onnx", "float[B,3] y", "y = MatMul(x, w)");
  CHECK(error_id(training(f, two, data, {})) == "E_DATA_LABEL");  // the labels are 0, 1, 2
  CHECK(error_id({"eval", two, "--val", data, "--batch_size", "4"}) == "E_DATA_LABEL");
  CHECK(error_id(training(f, model, data, {})) == "none");
  const std::vector<std::string> pairs = {"--loss", "mnr", "--shuffle", "false"};
  CHECK(error_id(training(f, model, data, pairs)) == "none");
  CHECK(error_id(training(f, model, data, {"--loss", "mnr"})) == "E_PAIRS");
  CHECK(error_id(training(f, model, data, {"--loss", "mnr", "--shuffle", "false", "--batch_size", "5"})) == "E_PAIRS");
  CHECK(error_id(training(f, model, data, {"--loss", "triplet", "--shuffle", "false", "--batch_size", "6"})) ==
        "E_DATA_PAIRS");  // after two batches of 6 rows, 4 of the 16 rows are left
}

TEST_CASE("a model that computes its own loss trains as the same loss outside") {
  const TempDir f;
  const std::string data = write_data(f);
  const std::string own =
      write_model(f, "own.onnx", "float loss, float[B,3] y",
                  "y = MatMul(x, w) loss = SoftmaxCrossEntropyLoss(y, labels)", "float[B,4] x, int64[B] labels");
  const std::string plain = write_model(f, "plain.onnx", "float[B,3] y", "y = MatMul(x, w)");
  const Grad want = grad(f, plain, data, {});
  close(grad(f, own, data, {}), want);
  close(grad(f, own, data, {"--loss", "model"}), want);
  close(grad(f, own, data, {"--loss", "ce,output=y"}), want);
  run(training(f, own, data, {"--gradient_accumulation_steps", "2"}));
  const nlohmann::json inside = report(f);
  run(training(f, plain, data, {"--gradient_accumulation_steps", "2"}));
  CHECK(inside["final_metrics"]["loss"].get<double>() ==
        Catch::Approx(report(f)["final_metrics"]["loss"].get<double>()).epsilon(1e-5));
}

TEST_CASE("several losses on several outputs add up") {
  const TempDir f;
  const std::string data = write_data(f);
  const std::string two = write_model(f, "two.onnx", "float[B,3] a, float[B] b",
                                      "a = MatMul(x, w) i = Constant<value = int64 {0}>() b = Gather<axis = 1>(a, i)");
  const Grad first = grad(f, two, data, {"--loss", "ce,output=a"}),
             second = grad(f, two, data, {"--loss", "mse,output=b,label=score"});
  Grad sum = first;
  sum.loss += 0.25 * second.loss;
  for (size_t i = 0; i < sum.w.size(); ++i) sum.w[i] += 0.25 * second.w[i];
  const std::string json =
      R"([{"kind": "ce", "output": "a"}, {"kind": "mse", "output": "b", "label": "score", "weight": 0.25}])";
  close(grad(f, two, data, {"--loss", "ce,output=a,mse,output=b,label=score,weight=0.25"}), sum);
  close(grad(f, two, data, {"--loss", "ce,output=a", "--loss", "mse,output=b,label=score,weight=0.25"}), sum);
  close(grad(f, two, data, {"--loss", json}), sum);
  write_bytes(f / "losses.json", json);
  close(grad(f, two, data, {"--loss", f / "losses.json"}), sum);
}

TEST_CASE("a teacher with the student's weights has nothing to teach, another one has") {
  const TempDir f;
  const std::string data = write_data(f);
  const std::string student = write_model(f, "student.onnx", "float[B,3] y", "y = MatMul(x, w)");
  const std::string same = write_model(f, "same.onnx", "float[B,3] p", "l = MatMul(x, w) p = Softmax(l)");
  const std::string other = write_model(f, "other.onnx", "float[B,3] y", "t = MatMul(x, w) y = Neg(t)");
  run(training(f, student, data, {"--loss", "distill", "--teacher", same, "--lr", "0"}));
  CHECK(std::abs(report(f)["final_metrics"]["loss"].get<double>()) < 1e-7);
  run(training(f, student, data, {"--teacher", other, "--temperature", "2", "--use_fp16"}));
  CHECK(report(f)["final_metrics"]["loss"].get<double>() < report(f)["initial_metrics"]["loss"].get<double>());
  CHECK(report(f)["final_metrics"].contains("accuracy"));
  CHECK(error_id(training(f, student, data, {"--loss", "distill"})) == "E_TEACHER");
}

TEST_CASE("tasks choose loss and metrics, and gates know them") {
  const TempDir f;
  const std::string data = write_data(f);
  const std::string model = write_model(f, "m.onnx", "float[B,3] y", "y = MatMul(x, w)");
  const std::string one = write_model(f, "one.onnx", "float[B] y",
                                      "a = MatMul(x, w) i = Constant<value = int64 {0}>() y = Gather<axis = 1>(a, i)");
  run(training(f, one, data, {"--loss", "mse,label=score", "--require", "pearson>=-1", "--require", "mae<=100"}));
  for (const char* name : {"mse", "mae", "pearson", "spearman"}) CHECK(report(f)["final_metrics"].contains(name));
  run(training(f, model, data, {"--task", "multilabel", "--loss", "bce,label=yes", "--require", "micro_f1>=0"}));
  CHECK(report(f)["final_metrics"].contains("exact_match"));
  CHECK(error_id(training(f, model, data, {"--require", "pearson>=0"})) == "E_METRIC");
  CHECK(error_id(training(f, model, data, {"--metric_for_best_model", "miou"})) == "E_METRIC");
  CHECK(error_id(training(f, model, data, {"--require", "accuracy>1"})) == "E_GATE");
  CHECK(error_id(training(f, model, data, {"--task", "regression", "--loss", "ce"})) == "E_TASK");
  CHECK(error_id(training(f, model, data, {"--loss", "ce,label=nothing"})) == "E_DATA_COLUMN");
  CHECK(error_id({"grad", model, "--inputs", data, "--out", f / "g.npz", "--loss", "crossentropy2"}) == "E_LOSS");
  CHECK(error_id({"grad", model, "--inputs", data, "--out", f / "g.npz", "--loss", "model"}) == "E_LOSS_IO");
}

TEST_CASE("class weights by name and balanced train as the same numbers do") {
  const TempDir f;
  const std::string data = write_data(f);  // 16 labels i * 7 % 3: 6 of class 0, and 5 each of classes 1 and 2
  const std::string model = write_model(f, "m.onnx", "float[B,3] y", "y = MatMul(x, w)");
  const auto loss = [&](const std::string& weights) {
    run(training(f, model, data, {"--loss", "ce,class_weights=" + weights, "--labels", "a,b,c", "--lr", "0"}));
    return report(f)["final_metrics"]["loss"].get<double>();
  };
  CHECK(loss("b=3") == loss("1:3:1"));
  CHECK(loss("balanced") == Catch::Approx(loss("0.888888888888889:1.06666666666667:1.06666666666667")).epsilon(1e-6));
  CHECK(loss("balanced") != loss("b=3"));
  CHECK(error_id(training(f, model, data, {"--loss", "ce,class_weights=d=3", "--labels", "a,b,c"})) == "E_LOSS");
  CHECK(error_id({"grad", model, "--inputs", data, "--out", f / "g.npz", "--loss", "ce,class_weights=balanced"}) ==
        "E_LOSS");
}

TEST_CASE("a note tells that an evaluation before the last was better") {
  const TempDir f;
  const std::string data = write_data(f);
  const std::string model = write_model(f, "m.onnx", "float[B,3] y", "y = MatMul(x, w)");
  // Steps this large overshoot the minimum and diverge.
  const std::vector<std::string> worse = {
      "--loss",       "mse,label=yes",   "--optimizer", "sgd",         "--lr", "30",           "--lr_scheduler",
      "constant",     "--max_grad_norm", "0",           "--max_steps", "4",    "--eval_steps", "1",
      "--quiet=false"};
  const std::string note = "--export_weights best --out best.onnx` writes them";
  const auto said = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = worse;
    words.insert(words.end(), more.begin(), more.end());
    return must_run(training(f, model, data, words)).err;
  };
  CHECK_THAT(said({}), ContainsSubstring("those of step 1 were better") && ContainsSubstring(note));
  CHECK_THAT(said({"--export_weights", "best"}), !ContainsSubstring("were better"));
  CHECK_THAT(said({"--lr", "1e-3"}), !ContainsSubstring("were better"));
}
