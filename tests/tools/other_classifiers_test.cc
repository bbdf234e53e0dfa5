// eval and predict on table classifiers trained by other programs: scikit-learn's, with its probabilities
// (tests/data/classifiers), and networks that end in a Softmax or a single Sigmoid.
#include <catch2/catch_all.hpp>

#include "base/npz.h"
#include "tests/importer/models.h"
#include "tests/support.h"
#include "tests/tools/verb_run.h"

using namespace amp;
using namespace amp::test;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::WithinAbs;
using nlohmann::json;

namespace {

std::vector<std::string> lines_of(const std::string& path) {
  std::vector<std::string> out;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) out.push_back(line);
  return out;
}

std::vector<std::string> fields_of(const std::string& line) {
  std::vector<std::string> out;
  std::istringstream in(line);
  for (std::string field; std::getline(in, field, ',');) out.push_back(field);
  return out;
}

// Class 1 if a + b is positive. The rows below keep a margin.
const char* const kOneSigmoid =
    "<ir_version: 8, opset_import: [\"\" : 17]> g (float[N,2] x) => (float[N,1] p) <float[2,1] w = {4,4}, "
    "float[1] b = {0}> { h = MatMul (x, w) z = Add (h, b) p = Sigmoid (z) }";
const char* const kSoftmax =
    "<ir_version: 8, opset_import: [\"\" : 17]> g (float[N,2] x) => (float[N,2] p) <float[2,2] w = {-4,4,-4,4}, "
    "float[2] b = {0,0}> { h = MatMul (x, w) z = Add (h, b) p = Softmax (z) }";

// Four rows in five are labeled right.
const char* const kTable = "a,b,label\n1,2,1\n-1,-1,0\n2,-1,1\n-2,1,0\n3,1,0\n";

}  // namespace

TEST_CASE("eval and predict of scikit-learn's classifiers equal scikit-learn's numbers", "[classes][classifiers]") {
  const std::string folder = source_root() + "/tests/data/classifiers";
  const json expected = json::parse(std::ifstream(folder + "/expected.json"));
  for (const auto& [name, want] : expected.items()) {
    INFO(name);
    const TempDir f;
    const std::string model = folder + "/" + name + ".onnx", rows = folder + "/" + name + ".csv";
    const json got = json::parse(must_run({"eval", model, "--val", rows, "--device", "cpu"}).out);
    CHECK_THAT(got.at("accuracy").get<double>(), WithinAbs(want.at("accuracy").get<double>(), 1e-9));
    // scikit-learn computes in float64, the model file in float32. Scores of about 20 then have errors of 1e-6.
    CHECK_THAT(got.at("loss").get<double>(), WithinAbs(want.at("log_loss").get<double>(), 2e-5));
    CHECK_THAT(got.at("log_loss").get<double>(), WithinAbs(want.at("log_loss").get<double>(), 2e-5));

    must_run({"predict", model, "--inputs", rows, "--out", f / "p.csv", "--device", "cpu"});
    const std::vector<std::string> out = lines_of(f / "p.csv");
    REQUIRE(out.size() == want.at("predicted").size() + 1);
    const std::vector<std::string> classes = want.at("classes");
    for (size_t c = 0; c < classes.size(); ++c) CHECK(fields_of(out[0]).at(7 + c) == "probabilities_" + classes[c]);
    for (size_t r = 0; r + 1 < out.size(); ++r) {
      const std::vector<std::string> fields = fields_of(out[r + 1]);
      CHECK(fields.at(5) == want.at("predicted")[r].get<std::string>());
      if (r >= want.at("probabilities").size()) continue;
      for (size_t c = 0; c < classes.size(); ++c)
        CHECK_THAT(std::stod(fields.at(7 + c)), WithinAbs(want.at("probabilities")[r][c].get<double>(), 2e-6));
    }
  }
}

TEST_CASE("a network of scikit-learn trains from the accuracy that it has", "[classes][classifiers]") {
  const std::string folder = source_root() + "/tests/data/classifiers";
  const json expected = json::parse(std::ifstream(folder + "/expected.json"));
  for (const std::string name : {"network_zip", "network_binary"}) {
    INFO(name);
    const TempDir f;
    const std::string rows = folder + "/" + name + ".csv";
    const Said s = must_run({folder + "/" + name + ".onnx", "--train", rows, "--val", rows, "--target", "label",
                             "--feature_scaling", "none", "--max_steps", "4", "--lr", "1e-3", "--output_dir", f / "run",
                             "--device", "cpu"});
    const json run = json::parse(std::ifstream(f / "run/run.json"));
    CHECK_THAT(run.at("initial_metrics").at("accuracy").get<double>(),
               WithinAbs(expected.at(name).at("accuracy").get<double>(), 1e-9));
    if (name == "network_zip") CHECK_THAT(s.err, ContainsSubstring("ZipMap"));
    const std::string note = "numbers are scaled for training (--feature_scaling standard)";
    CHECK_THAT(s.err, !ContainsSubstring(note));
    const Said scaled = must_run({folder + "/" + name + ".onnx", "--train", rows, "--target", "label", "--max_steps",
                                  "1", "--output_dir", f / "scaled", "--device", "cpu"});
    CHECK_THAT(scaled.err, ContainsSubstring(note));
  }
}

TEST_CASE("a table is fed to a model without a record by its columns' order", "[classes][classifiers]") {
  for (const char* const model : {kOneSigmoid, kSoftmax}) {
    const TempDir f;
    save(f, parse(model));
    write_bytes(f / "t.csv", kTable);
    const Said s = must_run({"eval", f / "model.onnx", "--val", f / "t.csv", "--device", "cpu"});
    CHECK(json::parse(s.out).at("accuracy") == 0.8);
    CHECK_THAT(s.err, ContainsSubstring("'a', 'b' are fed as they are"));
    must_run({"predict", f / "model.onnx", "--inputs", f / "t.csv", "--out", f / "p.csv", "--device", "cpu"});
    const std::vector<std::string> out = lines_of(f / "p.csv");
    CHECK_THAT(out.at(0), ContainsSubstring("a,b,label,predicted_label"));
    CHECK(fields_of(out.at(1)).at(3) == "1");
    CHECK(fields_of(out.at(2)).at(3) == "0");

    write_bytes(f / "wide.csv", "a,b,c,label\n1,2,3,1\n-1,-1,0,0\n");
    const Said wide = run_verb({"eval", f / "model.onnx", "--val", f / "wide.csv", "--target", "label"});
    CHECK(wide.id == "E_FEATURE_WIDTH");
    CHECK_THAT(wide.fact, ContainsSubstring("takes 2 numbers a row") && ContainsSubstring("has 3 columns"));
    CHECK(run_verb({"eval", f / "model.onnx", "--val", f / "wide.csv", "--continuous", "b,a", "--target", "label",
                    "--device", "cpu"})
              .code == 0);
  }
}

TEST_CASE("one Sigmoid tells two classes apart in tensors, too", "[classes][classifiers]") {
  const TempDir f;
  save(f, parse(kOneSigmoid));
  const HostTensor x = HostTensor::of<float>({5, 2}, {1, 2, -1, -1, 2, -1, -2, 1, 3, 1});
  const auto eval = [&](HostTensor label) {
    write_safetensors(f / "d.safetensors", {{"x", x}, {"label", std::move(label)}});
    return json::parse(must_run({"eval", f / "model.onnx", "--val", f / "d.safetensors", "--device", "cpu"}).out);
  };
  CHECK(eval(HostTensor::of<int64_t>({5}, {1, 0, 1, 0, 0})).at("accuracy") == 0.8);
  CHECK(eval(HostTensor::of<float>({5, 1}, {1, 0, 1, 0, 0})).at("accuracy") == 0.8);
}

TEST_CASE("problem_type of a config.json beside the model says that labels are several", "[classes][classifiers]") {
  const TempDir f;
  // Word i has label i. A text has the labels of its words.
  save(f, parse("<ir_version: 8, opset_import: [\"\" : 13]> g (int64[B,S] input_ids) => (float[B,2] logits) "
                "<float[7,2] e = {0,0,0,0,0,0,0,0,0,0,9,-3,-3,9}, float[2] b = {-0.25,-0.25}> "
                "{ x = Gather (e, input_ids) m = ReduceMean <axes = [1], keepdims = 0> (x) logits = Add (m, b) }"));
  write_bytes(f / "vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nrude\nloud\n");
  write_bytes(f / "config.json",
              R"({"problem_type": "multi_label_classification", "id2label": {"0": "rude", "1": "loud"}})");
  write_bytes(f / "t.csv", "text,label\nrude rude,rude\nrude loud,rude|loud\nloud loud,loud\n");
  const Said s =
      must_run({"eval", f / "model.onnx", "--val", f / "t.csv", "--text_columns", "text", "--device", "cpu"});
  CHECK(json::parse(s.out).at("exact_match") == 1.0);
  CHECK_THAT(s.err, ContainsSubstring("problem_type of"));
  must_run({"predict", f / "model.onnx", "--inputs", f / "t.csv", "--text_columns", "text", "--out", f / "p.csv",
            "--device", "cpu"});
  CHECK(fields_of(lines_of(f / "p.csv").at(2)).at(2) == "rude|loud");
}
