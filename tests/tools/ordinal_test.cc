// Ordinal regression through the verbs: tables and texts, named and numbered classes, evaluation and predictions by the
// model's metadata.
#include <catch2/catch_all.hpp>

#include "base/npz.h"
#include "tests/importer/models.h"
#include "tests/support.h"
#include "tests/tools/verb_run.h"

using namespace amp;
using namespace amp::test;
using Catch::Matchers::ContainsSubstring;
using nlohmann::json;

namespace {

using Words = std::vector<std::string>;

// Writes rows whose rating grows with a + b.
std::string rating_table(const Words& names) {
  std::string out = "a,b,rating\n";
  for (int a = 0; a < 8; ++a) {
    for (int b = 0; b < 8; ++b)
      out += std::to_string(a * 0.25) + "," + std::to_string(b * 0.25) + "," +
             names[static_cast<size_t>((a + b) * static_cast<int>(names.size()) / 15)] + "\n";
  }
  return out;
}

void make_model(const TempDir& f, int outputs) {
  must_run({"create", "mlp", "--model_config",
            R"({"inputs": 2, "hidden": [16], "outputs": )" + std::to_string(outputs) + "}", "--out", f / "mlp.onnx",
            "--quiet"});
}

Said train(const TempDir& f, const Words& more) {
  Words words = {f / "mlp.onnx", "--train",      f / "t.csv", "--val",      f / "t.csv", "--target", "rating",
                 "--task",       "ordinal",      "--device",  "cpu",        "--threads", "1",        "--batch_size",
                 "16",           "--output_dir", f / "run",   "--overwrite"};
  words.insert(words.end(), more.begin(), more.end());
  return run_verb(words);
}

}  // namespace

TEST_CASE("a table of ratings trains, is evaluated and predicted", "[ordinal]") {
  const TempDir f;
  write_bytes(f / "t.csv", rating_table({"1", "2", "3", "4", "5"}));
  make_model(f, 4);
  const Said said = train(f, {"--max_steps", "200", "--lr", "0.03"});
  INFO(said.id << ": " << said.fact);
  REQUIRE(said.code == 0);
  CHECK_THAT(said.err, ContainsSubstring("loss: coral"));
  const json final_metrics = json::parse(bytes_of(f / "run/run.json")).at("final_metrics");
  CHECK(final_metrics.at("quadratic_kappa").get<double>() > 0.8);  // high, because the classes are linear in a + b
  CHECK(final_metrics.at("mae").get<double>() < 0.5);
  const json again = json::parse(must_run({"eval", f / "run", "--val", f / "t.csv", "--device", "cpu"}).out);
  CHECK(again.at("quadratic_kappa") == final_metrics.at("quadratic_kappa"));
  must_run({"predict", f / "run", "--inputs", f / "t.csv", "--out", f / "p.jsonl", "--device", "cpu", "--quiet"});
  const std::vector<json> rows = json_lines(f / "p.jsonl");
  double distance = 0;
  for (const json& row : rows) {
    distance += std::abs(std::stod(row.at("predicted_label").get<std::string>()) -
                         std::stod(row.at("rating").get<std::string>()));
    CHECK(row.at("probability_above").size() == 4);
  }
  CHECK(distance / static_cast<double>(rows.size()) == Catch::Approx(final_metrics.at("mae").get<double>()));
}

TEST_CASE("named classes have the order of --labels", "[ordinal]") {
  const TempDir f;
  write_bytes(f / "t.csv", rating_table({"low", "middle", "high"}));
  make_model(f, 2);
  const Said unordered = train(f, {"--max_steps", "1"});
  CHECK(unordered.id == "E_LABELS");
  CHECK_THAT(unordered.hint, ContainsSubstring("from the lowest to the highest"));
  CHECK(train(f, {"--max_steps", "1", "--labels", "low,middle,high"}).code == 0);
  must_run({"predict", f / "run", "--inputs", f / "t.csv", "--out", f / "p.jsonl", "--device", "cpu", "--quiet"});
  const json above = json_lines(f / "p.jsonl").at(0).at("probability_above");
  CHECK((above.size() == 2 && above.contains("low") && above.contains("middle")));
  make_model(f, 3);  // a model for four classes, but --labels names three
  CHECK(train(f, {"--max_steps", "1", "--labels", "low,middle,high"}).id == "E_LABELS");
}

TEST_CASE("texts get a head with an output for each threshold", "[ordinal]") {
  const TempDir f;
  write_bytes(f / "v.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\ngood\nday\nbad\n");
  write_bytes(f / "t.csv", "text,label\ngood day,3\nbad day,1\nday,2\ngood good,4\n");
  must_run({"create", "bert", "--model_head", "none", "--out", f / "bert.onnx", "--model_config",
            R"({"vocab_size": 8, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2})"});
  const Words base = {
      f / "bert.onnx", "--train", f / "t.csv",   "--text_columns", "text", "--vocab", f / "v.txt",
      "--output_dir",  f / "run", "--overwrite", "--device",       "cpu",  "--task",  "ordinal_regression",
      "--max_steps",   "1"};
  const Said said = must_run(base);
  CHECK_THAT(said.err, ContainsSubstring("head: classification, 3 outputs"));
  must_run({"predict", f / "run", "--inputs", f / "t.csv", "--out", f / "p.npz", "--device", "cpu", "--quiet"});
  CHECK(read_npz(f / "p.npz").at(1).tensor.dims() == Dims{4, 3});
  Words other = base;
  other.insert(other.end(), {"--loss", "cross_entropy"});
  CHECK(run_verb(other).id == "E_TASK");
}
