// Models that are created for a table: sizes from the data, one command from a CSV file to a file that takes raw rows.
#include <catch2/catch_all.hpp>

#include "base/fs.h"
#include "base/safetensors.h"
#include "importer/read/import.h"
#include "tests/importer/models.h"
#include "tests/support.h"
#include "tests/tools/verb_run.h"

using namespace amp;
using namespace amp::test;
using Catch::Matchers::ContainsSubstring;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

using Words = std::vector<std::string>;

// Returns a table of 120 rows. Categories: city (3 values), rooms (4). Numbers: area, and age, which every tenth row
// lacks. kind is one of three classes, which area determines; price is a number.
std::string shop(int rows = 120) {
  std::string out = "id,city,rooms,area,age,kind,price\n";
  for (int i = 0; i < rows; ++i) {
    const int area = 20 + (i * 37) % 101;
    out += cat(i + 1, ",", std::array{"Rome", "Oslo", "Lima"}[static_cast<size_t>(i % 3)], ",", 1 + i % 4, ",", area,
               ".5,", i % 10 == 9 ? "" : std::to_string((i * 7) % 90), ",",
               area < 50   ? "s"
               : area < 80 ? "m"
                           : "l",
               ",", 1000 + 25 * area, ".25\n");
  }
  return out;
}

std::vector<int64_t> dims_of(const std::string& model, const std::string& parameter) {
  const Imported m = import_model(model);
  const int v = m.graph.find(parameter);
  REQUIRE(v >= 0);
  const Dims& dims = m.graph.value(v).data.dims();
  return {dims.begin(), dims.end()};
}

std::vector<std::string> inputs_of(const std::string& model) {
  const Imported m = import_model(model);
  std::vector<std::string> out;
  for (const int v : m.graph.inputs) out.push_back(m.graph.value(v).name);
  return out;
}

}  // namespace

TEST_CASE("create derives the sizes of a model from a table", "[tables]") {
  const TempDir f;
  write_bytes(f / "t.csv", shop());
  const auto created = [&](const std::string& kind, const Words& more) {
    Words words = {"create", kind, "--train", f / "t.csv", "--out", f / "m.onnx"};
    words.insert(words.end(), more.begin(), more.end());
    return run_verb(words);
  };
  const Said classes = created("tabular", {"--target", "kind"});
  CHECK(classes.code == 0);
  CHECK_THAT(classes.err, ContainsSubstring("target kind: 3 classes (--task classification)"));
  // Categories: 3 and 4 values, each with one more for the code 0. Numbers: area, age, price, and the indicator of age.
  CHECK_THAT(classes.err, ContainsSubstring(R"({"categories": [4, 5], "continuous": 4, "outputs": 3, "hidden")"));
  CHECK(dims_of(f / "m.onnx", "embeds.0.weight").at(0) == 4);
  CHECK(dims_of(f / "m.onnx", "embeds.1.weight").at(0) == 5);
  CHECK(dims_of(f / "m.onnx", "out.weight") == std::vector<int64_t>{3, 100});
  CHECK(inputs_of(f / "m.onnx") == Words{"categorical", "continuous"});
  // Tests a number as the target, columns by name, and a configuration that overrides the hidden layers.
  const Said number =
      created("tabular", {"--target", "price", "--continuous", "area,age", "--model_config", R"({"hidden": [7]})"});
  CHECK_THAT(number.err, ContainsSubstring("target price: a number (--task regression)"));
  CHECK(dims_of(f / "m.onnx", "out.weight") == std::vector<int64_t>{1, 7});
  CHECK(inputs_of(f / "m.onnx") == Words{"continuous"});
  // An mlp has a single input with 6 columns: the codes of the categories, and the numbers.
  CHECK_THAT(created("mlp", {"--target", "kind"}).err, ContainsSubstring(R"({"inputs": 6, "outputs": 3})"));
  // Held-out rows, here the one with a fifth number of rooms, do not affect the sizes.
  write_bytes(f / "t.csv", shop() + "121,Rome,9,30.5,3,s,1750.25\n");
  CHECK_THAT(created("tabular", {"--target", "kind", "--limit_train", "120", "--limit_order", "first"}).err,
             ContainsSubstring("[4, 5]"));
  CHECK_THAT(created("tabular", {"--target", "kind"}).err, ContainsSubstring("[4, 6]"));
}

TEST_CASE("one command makes a trained file with raw-row inputs from a table", "[tables]") {
  const TempDir f;
  write_bytes(f / "t.csv", shop());
  const Words words = {"tabular",  "--train", f / "t.csv",    "--target", "kind",         "--device", "cpu",
                       "--epochs", "30",      "--batch_size", "16",       "--output_dir", f / "run"};
  const auto with = [&](const Words& more) {
    Words all = words;
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  const Said said = must_run(words);
  CHECK_THAT(said.err, ContainsSubstring("--lr 0.001, --batchnorm train, --val_split 0.1, --export_raw_rows true"));
  const json run = json::parse(bytes_of(f / "run/run.json"));
  CHECK(run.at("config").at("lr") == 0.001);
  CHECK(run.at("config").at("batchnorm") == "train");
  // Area determines the three classes; an untrained model has about 1/3.
  CHECK(run.at("final_metrics").at("accuracy").get<double>() > 0.8);
  CHECK_THAT(said.err, ContainsSubstring("raw rows, an input (rows, 1) for each of: city (text), rooms (text), area "
                                         "(double), age (double), price (double)"));
  must_run({"export", f / "run", "--out", f / "raw.onnx", "--export_raw_rows", "--quiet"});
  CHECK(bytes_of(f / "run/raw_rows.onnx") == bytes_of(f / "raw.onnx"));
  must_run({"predict", f / "run", "--inputs", f / "t.csv", "--out", f / "p.jsonl", "--device", "cpu", "--quiet"});
  CHECK(json_lines(f / "p.jsonl").size() == 120);
  // A finished run is refused before its model is written again; --overwrite and a resumed run write the same file.
  const std::string first = bytes_of(f / "run-tabular.onnx"), trained = bytes_of(f / "run/model.onnx");
  fs::remove(f / "run-tabular.onnx");
  CHECK(run_verb(words).id == "E_OUTPUT_EXISTS");
  CHECK_FALSE(fs::exists(f / "run-tabular.onnx"));
  must_run(with({"--overwrite", "--quiet"}));
  CHECK(bytes_of(f / "run-tabular.onnx") == first);
  CHECK(bytes_of(f / "run/model.onnx") == trained);
  must_run(with({"--resume", "auto", "--quiet"}));
  CHECK(bytes_of(f / "run-tabular.onnx") == first);
  // Given settings are kept.
  must_run(with({"--overwrite", "--quiet", "--lr", "0.01", "--val_split", "0", "--export_raw_rows", "false"}));
  const json given = json::parse(bytes_of(f / "run/run.json"));
  CHECK(given.at("config").at("lr") == 0.01);
  CHECK(given.at("config").at("val_split") == 0);
  CHECK_FALSE(fs::exists(f / "run/raw_rows.onnx"));
}

TEST_CASE("a run that only reports leaves no model of its table", "[tables]") {
  const TempDir f;
  write_bytes(f / "t.csv", shop());
  const Words words = {"tabular", "--train", f / "t.csv", "--target", "price", "--output_dir", f / "run"};
  const auto with = [&](const std::string& flag) {
    Words all = words;
    all.push_back(flag);
    return all;
  };
  must_run(with("--dry_run"));
  const json report = json::parse(must_run(with("--check_data")).out);
  CHECK(report.at("problems") == 0);
  CHECK(report.at("inputs").at(0) ==
        R"(configuration of tabular: {"categories": [4, 5, 4], "continuous": 3, "outputs": 1})");
  CHECK(list_dir(f / ".") == Words{"t.csv"});
}

TEST_CASE("batches of one sample are noted where BatchNorm uses their statistics", "[tables]") {
  const TempDir f;
  write_bytes(f / "t.csv", shop(121));
  const auto said = [&](const Words& more) {
    Words words = {"tabular",     "--train", f / "t.csv",   "--target", "price",        "--device", "cpu",
                   "--val_split", "0",       "--max_steps", "1",        "--output_dir", f / "run",  "--overwrite"};
    words.insert(words.end(), more.begin(), more.end());
    return must_run(words).err;
  };
  CHECK_THAT(said({"--batch_size", "1"}), ContainsSubstring("the statistics of one sample (--batch_size 1)"));
  const std::string last = "the last micro-batch of an epoch has one sample (121 by --batch_size 8)";
  CHECK_THAT(said({"--batch_size", "8"}), ContainsSubstring(last));
  CHECK_THAT(said({"--batch_size", "9"}), !ContainsSubstring("one sample"));
  CHECK_THAT(said({"--batch_size", "8", "--batchnorm", "freeze"}), !ContainsSubstring("one sample"));
  CHECK_THAT(said({"--batch_size", "8", "--batchnorm", "train"}), !ContainsSubstring("has no effect"));
}

TEST_CASE("a model without BatchNorm is noted where its statistics are requested", "[tables]") {
  const TempDir f;
  write_safetensors(f / "data.safetensors", {{"input", HostTensor::zeros(DType::f32, {4, 1, 28, 28})},
                                             {"label", HostTensor::zeros(DType::i64, {4})}});
  const auto said = [&](const Words& more) {
    Words words = {test_data("zoo/lenet_relu_dyn18/model.onnx"),
                   "--train",
                   f / "data.safetensors",
                   "--loss",
                   "cross_entropy",
                   "--max_steps",
                   "1",
                   "--device",
                   "cpu",
                   "--output_dir",
                   f / "run",
                   "--overwrite"};
    words.insert(words.end(), more.begin(), more.end());
    return must_run(words).err;
  };
  CHECK_THAT(said({"--batchnorm", "train"}), ContainsSubstring("--batchnorm train has no effect"));
  CHECK_THAT(said({}), !ContainsSubstring("has no effect"));
}

TEST_CASE("a model for a table is refused without one", "[tables]") {
  const TempDir f;
  write_bytes(f / "t.csv", shop());
  const auto refused = [&](const std::string& id, const std::string& part, const Words& words) {
    const Said said = run_verb(words);
    INFO(said.fact);
    CHECK(said.id == id);
    CHECK_THAT(said.fact + " / " + said.hint, ContainsSubstring(part));
  };
  refused("E_USAGE", "--train derives the sizes of tabular and mlp",
          {"create", "bert", "--train", f / "t.csv", "--out", f / "m.onnx"});
  refused("E_USAGE", "--target names columns", {"create", "tabular", "--target", "kind", "--out", f / "m.onnx"});
  refused("E_USAGE", "--train names other data",
          {"create", "mlp", "--train", f / "none.npz", "--target", "kind", "--out", f / "m.onnx"});
  refused("E_DATA_COLUMN", "no column 'kund'",
          {"create", "tabular", "--train", f / "t.csv", "--target", "kund", "--out", f / "m.onnx"});
  write_bytes(f / "run-tabular.onnx", "my notes");
  refused("E_OUTPUT_FOREIGN", "is not a new model",
          {"tabular", "--train", f / "t.csv", "--target", "kind", "--output_dir", f / "run"});
  CHECK(bytes_of(f / "run-tabular.onnx") == "my notes");
  // Raw rows require a table.
  must_run({"create", "mlp", "--out", f / "m.onnx", "--quiet"});
  write_bytes(f / "a.csv", "text,label\na,1\nb,0\n");
  refused(
      "E_USAGE", "is for tables of features",
      {f / "m.onnx", "--train", f / "a.csv", "--text_columns", "text", "--output_dir", f / "run", "--export_raw_rows"});
}
