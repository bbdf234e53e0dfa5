// Models with integer weights (QDQ): refused with a hint, or trained through floating-point master weights as in
// PyTorch's fake quantization, and exported as integers. Expected numbers: tests/data/importer/make_qdq.py, torch 2.15.
#include <catch2/catch_all.hpp>
#include <string>
#include <vector>

#include "importer/read/import.h"
#include "tests/importer/models.h"
#include "tests/support.h"
#include "tests/tools/verb_run.h"

using namespace amp;
using namespace amp::test;

namespace {

const std::string kModel = test_data("importer/qdq_mlp.onnx");

struct Sums {
  int64_t plain = 0, squares = 0;
};
Sums sums_of(const Imported& m, const std::string& name) {
  const int v = m.graph.find(name);
  REQUIRE(v >= 0);
  Sums s;
  for (const int64_t x : m.graph.values[static_cast<size_t>(v)].data.to_ints()) {
    s.plain += x;
    s.squares += x * x;
  }
  return s;
}

std::vector<std::string> training(const std::string& out, int steps, const std::vector<std::string>& more) {
  const std::string data = test_data("importer/qdq_mlp_batch.safetensors");
  std::vector<std::string> words = {kModel, "--train", data, "--output_dir", out};
  const std::vector<std::string> rest = {"--max_steps",         std::to_string(steps),
                                         "--optimizer",         "sgd",
                                         "--momentum",          "0",
                                         "--learning_rate",     "0.1",
                                         "--lr_scheduler_type", "constant",
                                         "--max_grad_norm",     "0",
                                         "--weight_decay",      "0",
                                         "--logging_steps",     "1"};
  words.insert(words.end(), rest.begin(), rest.end());
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

}  // namespace

TEST_CASE("integer weights alone do not train, and the hint names what would", "[quantized]") {
  const TempDir f;
  const Said s = run_verb(training(f / "run", 1, {}));
  CHECK(s.code == 2);
  CHECK(s.id == "E_NOTHING_TRAINS");
  CHECK_THAT(s.hint, Catch::Matchers::ContainsSubstring("--train_quantized true"));
}

TEST_CASE("ten steps of integer weights are those of PyTorch's fake quantization", "[quantized]") {
  const TempDir f;
  must_run(training(f / "run", 10, {"--train_quantized", "true"}));
  const double want[] = {2.034425973892212,   1.3091057538986206,  0.9176299571990967, 0.7041232585906982,
                         0.5707122683525085,  0.47384655475616455, 0.4105699956417084, 0.354520320892334,
                         0.31382283568382263, 0.2805194556713104};
  size_t step = 0;
  for (const nlohmann::json& line : json_lines(f / "run/metrics.jsonl")) {
    REQUIRE(step < std::size(want));
    // tolerance: fp32 rounding.
    CHECK_THAT(line.at("loss").get<double>(), Catch::Matchers::WithinRel(want[step++], 1e-6));
  }
  CHECK(step == std::size(want));
  const Imported m = import_model(f / "run/model.onnx");
  const Sums w0 = sums_of(m, "w0_int8"), w1 = sums_of(m, "w1_uint8");
  CHECK(w0.plain == -107);
  CHECK(w0.squares == 1181025);
  CHECK(w1.plain == 10719);
  CHECK(w1.squares == 1674589);
  for (const SourceValue& v : m.graph.values) CHECK(v.name.find("master") == std::string::npos);
}

TEST_CASE("without a step the exported integers are the file's", "[quantized]") {
  const TempDir f;
  must_run(training(f / "run", 0, {"--train_quantized", "true"}));
  CHECK(bytes_of(f / "run/model.onnx") == bytes_of(kModel));
}
