// Feature tables through the verbs: predictions against onnxruntime on pandas' and scikit-learn's features
// (tests/data/predict/table/make_table_golden.py), and the way from CSV files to an exported model and back.
#include <catch2/catch_all.hpp>
#include <cmath>

#include "base/npz.h"
#include "data/table.h"
#include "tests/importer/models.h"
#include "tests/support.h"
#include "tests/tools/verb_run.h"

using namespace amp;
using namespace amp::test;
using Catch::Approx;
using Catch::Matchers::ContainsSubstring;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

using Words = std::vector<std::string>;

std::string made(const std::string& name) { return test_data("predict/table/" + name); }
std::string tables(const std::string& name) { return test_data("data/features/" + name); }

// Returns the command line of a run on the tables, with the given flags replaced.
Words training(const std::string& output, const Words& more, const std::string& train = tables("sales.csv")) {
  Words words = {made("start.onnx"),
                 "--train",
                 train,
                 "--join",
                 tables("store.csv") + ":Store",
                 "--device",
                 "cpu",
                 "--output_dir",
                 output,
                 "--batch_size",
                 "16",
                 "--lr",
                 "0.02"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

const Words kColumns = {"--date",        "Date",
                        "--categorical", "Store,State,Promo,Kind,Month,Dayofweek",
                        "--continuous",  "Temperature,Visitors,Distance,Elapsed",
                        "--target",      "Sales"};

Words with(const Words& a, const Words& b) {
  Words out = a;
  out.insert(out.end(), b.begin(), b.end());
  return out;
}

}  // namespace

TEST_CASE("predictions for a table are onnxruntime's on scikit-learn's features, in the target's units", "[tables]") {
  const json want = json::parse(bytes_of(made("golden.json")));
  const TempDir f;
  const Said said = must_run({"predict", made("model.onnx"), "--inputs", tables("new.csv"), "--out", f / "p.csv",
                              "--device", "cpu", "--eval_batch_size", "5"});
  CHECK_THAT(said.err, ContainsSubstring("new.csv:2:1: column 'Store' holds '99', which the training data lack"));
  must_run({"predict", made("model.onnx"), "--inputs", tables("new.csv"), "--out", f / "p.jsonl", "--device", "cpu",
            "--quiet"});
  const std::vector<json> rows = json_lines(f / "p.jsonl");
  REQUIRE(rows.size() == want["prediction"].size());
  for (size_t r = 0; r < rows.size(); ++r) {
    INFO(rows[r].dump());
    // Both programs compute in fp32. expm1 turns an absolute error of the logarithm into a relative error of the
    // prediction.
    CHECK(rows[r].at("prediction").get<double>() == Approx(want["prediction"][r].get<double>()).epsilon(1e-5));
  }
  CHECK(rows[1].at("Visitors") == "620");  // the row is copied unchanged
  CHECK_THAT(bytes_of(f / "p.csv"),
             ContainsSubstring("Store,Date,State,Promo,Temperature,Visitors,Sales,prediction\n"));
  // The file is found next to the table or by its path.
  fs::copy_file(tables("new.csv"), f / "t.csv");
  const Said lost = run_verb(
      {"predict", made("model.onnx"), "--inputs", f / "t.csv", "--out", f / "x.csv", "--device", "cpu", "--quiet"});
  CHECK(lost.id == "E_JOIN_FILE");
  must_run({"predict", made("model.onnx"), "--inputs", f / "t.csv", "--join", tables("store.csv") + ":Store", "--out",
            f / "t.jsonl", "--device", "cpu", "--quiet"});
  CHECK(json_lines(f / "t.jsonl") == rows);
}

TEST_CASE("metrics of a transformed target are in its own units", "[tables]") {
  const json want = json::parse(bytes_of(made("golden.json")));
  const Said said = must_run({"eval", made("model.onnx"), "--val", tables("new.csv"), "--device", "cpu"});
  const json got = json::parse(said.out);
  CHECK(got.at("rmspe").get<double>() == Approx(want["rmspe"].get<double>()).epsilon(1e-5));
  CHECK(got.at("mae").get<double>() == Approx(want["mae"].get<double>()).epsilon(1e-5));
}

TEST_CASE("a table trains, resumes, exports, is evaluated and predicted by the run's folder", "[tables]") {
  const TempDir f;
  const Words flags = with(kColumns, {"--target_transform", "log1p", "--val_split", "0.2", "--save_steps", "5",
                                      "--lr_scheduler", "constant"});
  const Said said = must_run(training(f / "run", with(flags, {"--max_steps", "10"})));
  CHECK_THAT(said.err,
             ContainsSubstring(
                 "input 'x_cont' takes 6: Temperature, Visitors, Distance, Elapsed, Temperature_na, Distance_na"));
  CHECK_THAT(said.err, ContainsSubstring("input 'x_cat' takes 6: Store (6 codes), State (5 codes)"));
  CHECK_THAT(said.err, ContainsSubstring("target Sales as log1p, reported in its own units"));
  const json run = json::parse(bytes_of(f / "run/run.json"));
  CHECK(run.at("final_metrics").at("rmspe").get<double>() > 0);
  must_run({"export", f / "run", "--out", f / "again.onnx", "--quiet"});
  CHECK(bytes_of(f / "again.onnx") == bytes_of(f / "run/model.onnx"));
  fs::copy_file(tables("new.csv"), f / "t.csv");  // the joined file is where it was when the run began
  must_run({"predict", f / "run", "--inputs", f / "t.csv", "--out", f / "p.npz", "--device", "cpu", "--quiet"});
  CHECK(read_npz(f / "p.npz").at(0).tensor.dims() == Dims{12});
  // A stopped and resumed run writes the same file. With another second table it cannot be resumed.
  fs::copy_file(tables("store.csv"), f / "store.csv");
  const auto part = [&](const Words& more) {
    Words words = training(f / "parts", with(flags, with(more, {"--quiet"})));
    words[4] = f / "store.csv:Store";
    return run_verb(words);
  };
  CHECK(part({"--max_steps", "5"}).code == 0);
  CHECK(part({"--max_steps", "10", "--resume", "auto"}).code == 0);
  CHECK(bytes_of(f / "parts/model.onnx") == bytes_of(f / "run/model.onnx"));
  write_bytes(f / "store.csv", bytes_of(tables("store.csv")) + "77,a,1\n");
  CHECK(part({"--max_steps", "11", "--resume", "auto"}).code == 6);
}

TEST_CASE("a run evaluates the rows of the validation table", "[tables]") {
  const TempDir f;
  must_run(training(f / "run", with(kColumns, {"--val", tables("new.csv"), "--max_steps", "3", "--quiet"})));
  const json metrics = json::parse(bytes_of(f / "run/run.json")).at("final_metrics");
  const auto of = [&](const std::string& table) {
    return json::parse(must_run({"eval", f / "run/model.onnx", "--val", tables(table), "--device", "cpu"}).out);
  };
  const json want = of("new.csv"), other = of("sales.csv");
  for (const char* name : {"mae", "loss"}) {
    INFO(name << ' ' << metrics.dump() << ' ' << want.dump());
    CHECK(metrics.at(name).get<double>() == Approx(want.at(name).get<double>()).epsilon(1e-5));
    CHECK(want.at(name).get<double>() != Approx(other.at(name).get<double>()).epsilon(1e-2));
  }
}

TEST_CASE("what columns are is guessed, said, and overruled by flags", "[tables]") {
  const TempDir f;
  const Said guessed = run_verb(training(f / "run", {"--target", "Sales", "--max_steps", "1"}));
  CHECK_THAT(guessed.err, ContainsSubstring("--categorical Store,State,Promo,Kind,Year,Month,Week"));
  CHECK_THAT(guessed.err, ContainsSubstring("--continuous Temperature,Visitors,Distance,Elapsed --date Date"));
  CHECK(guessed.id == "E_FEATURE_WIDTH");
  CHECK_THAT(guessed.fact, ContainsSubstring("'x_cat' takes 6 features, the columns give 16"));
  CHECK_THAT(guessed.hint,
             ContainsSubstring("a new model for these columns: `create tabular --model_config '{\"categories\": ["));
  const Said checked = run_verb(training(f / "run", {"--target", "Sales", "--check_data"}));
  CHECK_THAT(checked.out + checked.err,
             ContainsSubstring("a new model for these columns: `create tabular --model_config"));
  // A configuration file works too.
  write_bytes(f / "c.json",
              R"({"date": "Date", "categorical": ["Store", "State", "Promo", "Kind", "Month", "Dayofweek"],
                                "continuous": ["Temperature", "Visitors", "Distance", "Elapsed"], "target": "Sales"})");
  must_run(training(f / "run", {"--config", f / "c.json", "--max_steps", "1", "--quiet"}));
}

TEST_CASE("--check_data on a table counts, names what is wrong, and what the model is fed with", "[tables]") {
  const TempDir f;
  const Said good =
      must_run(training(f / "no", with(kColumns, {"--val", tables("new.csv"), "--check_data", "--quiet"})));
  const json j = json::parse(good.out);
  CHECK(j["task"] == "regression");
  CHECK(j["files"][0]["rows"] == 60);
  CHECK(j["files"][0]["columns"][0] ==
        json::parse(R"({"name": "Store", "kind": "categorical", "values": 5, "missing": 0, "unknown": 0})"));
  CHECK(j["files"][1]["columns"][0]["unknown"] == 5);
  CHECK(j["files"][0]["columns"][6]["name"] == "Temperature");
  CHECK(j["files"][0]["columns"][6]["missing"] == 6);
  CHECK(j["inputs"].size() == 3);
  write_bytes(
      f / "bad.csv",
      "Store,Date,State,Promo,Temperature,Visitors,Sales\n1,2015-01-01,x,1,warm,3,5\n2,2015-01-02,y,0,2.5,hot,\n");
  const Said bad =
      run_verb(training(f / "no", with(kColumns, {"--task", "regression", "--check_data", "--quiet"}), f / "bad.csv"));
  CHECK(bad.code == 5);
  CHECK(json::parse(bad.out)["problems"] == 3);
  CHECK_THAT(bad.err, ContainsSubstring("bad.csv:2:18: 'warm' in column 'Temperature' is no number"));
  CHECK_THAT(bad.err, ContainsSubstring("bad.csv:3:22: 'hot'"));
  CHECK_THAT(bad.err, ContainsSubstring("bad.csv:3:26: there is no target"));
}

TEST_CASE("tables that do not fit the model or the flags are refused", "[tables]") {
  const TempDir f;
  const auto refused = [&](int code, const std::string& id, const std::string& part, const Words& words) {
    const Said said = run_verb(words);
    INFO(said.fact);
    CHECK(said.code == code);
    CHECK(said.id == id);
    CHECK_THAT(said.fact + " / " + said.hint, ContainsSubstring(part));
  };
  const auto swapped = [&](const std::string& flag, const std::string& value) {
    Words out = kColumns;
    out[static_cast<size_t>(std::find(out.begin(), out.end(), flag) - out.begin()) + 1] = value;
    return training(f / "run", with(out, {"--max_steps", "1", "--quiet"}));
  };
  refused(5, "E_DATA_COLUMN", "did you mean 'Temperature'?", swapped("--continuous", "Temperatur,Visitors"));
  refused(5, "E_DATA_COLUMN", "no column 'Sale'", swapped("--target", "Sale"));
  refused(5, "E_FEATURE_WIDTH", "'x_cont' takes 6 features, the columns give 3",
          swapped("--continuous", "Visitors,Elapsed,Distance"));
  refused(5, "E_CATEGORIES",
          "column 'Store' has 5 categories, 6 codes with 0 for unknown; the table that the model looks them up in "
          "(input 'x_cat', column 2) has 3 rows",
          swapped("--categorical", "Promo,State,Store,Kind,Month,Dayofweek"));
  refused(2, "E_USAGE", "the target 'Sales' is named among the features", swapped("--continuous", "Sales,Visitors"));
  refused(2, "E_USAGE", "'Store' is named twice", swapped("--continuous", "Store,Visitors"));
  refused(5, "E_DATA_NUMBER", "sales.csv:2:4: '2012-12-30' in column 'Date' is no number",
          swapped("--continuous", "Date,Visitors"));
  refused(5, "E_DATA_LABEL", "log takes numbers above 0",
          with(swapped("--target", "Sales"), {"--target_transform", "log"}));
  write_bytes(f / "empty.csv", "Store,Date,State,Promo,Temperature,Visitors,Sales\n");
  refused(5, "E_DATA_EMPTY", "no rows", training(f / "run", kColumns, f / "empty.csv"));
  write_bytes(f / "t.csv", bytes_of(tables("sales.csv")) + "1,2015-06-30,Berlin,1,3.5,100,\n");
  refused(5, "E_DATA_LABEL", "t.csv:62:31: no value in the target column 'Sales'",
          training(f / "run", with(kColumns, {"--task", "regression"}), f / "t.csv"));
}

TEST_CASE("a model of tables is exported so that it takes raw rows", "[tables]") {
  const TempDir f;
  // The table has numbers and missing values, for which an indicator column is added. The target is logarithmic, so the
  // file must convert predictions back.
  const std::string model = save(f, test::parse(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    net (float[N,3] x) => (float[N,1] y)
    <float[3,4] w0 = {0.1,-0.2,0.3,0.4, 0.5,0.6,-0.7,0.8, 0.9,0.1,0.2,0.3}, float[4] b0 = {0.1,0.2,0.3,0.4},
     float[4,1] w1 = {1,1,1,-1}, float[1] b1 = {8}>
    { h = Gemm (x, w0, b0)  r = Relu (h)  y = Gemm (r, w1, b1) })"));
  must_run({model, "--train", tables("sales.csv"), "--continuous", "Visitors,Temperature", "--target", "Sales",
            "--target_transform", "log1p", "--max_steps", "5", "--output_dir", f / "run", "--device", "cpu",
            "--quiet"});
  must_run({"export", f / "run", "--out", f / "raw.onnx", "--export_raw_rows", "--quiet"});
  must_run({"predict", f / "run", "--inputs", tables("new.csv"), "--out", f / "p.npz", "--device", "cpu", "--quiet"});
  const Table t = Table::read(tables("new.csv"));
  std::vector<NamedTensor> raw;
  for (const std::string name : {"Visitors", "Temperature"}) {
    std::vector<double> x;
    for (int64_t r = 0; r < t.rows(); ++r)
      x.push_back(t.text(r, t.column(name)).empty() ? std::nan("") : std::stod(std::string(t.text(r, t.column(name)))));
    raw.push_back({name, HostTensor::of<double>({t.rows(), 1}, x)});
  }
  write_npz(f / "rows.npz", raw);
  must_run({"predict", f / "raw.onnx", "--inputs", f / "rows.npz", "--out", f / "o.npz", "--device", "cpu", "--quiet"});
  const std::vector<double> want = read_npz(f / "p.npz").at(0).tensor.to_doubles();
  const std::vector<double> got = read_npz(f / "o.npz").at(0).tensor.to_doubles();
  REQUIRE(got.size() == want.size());
  // The network rounds to fp32, and the file computes e^x - 1 of its result in fp32.
  for (size_t r = 0; r < got.size(); ++r) CHECK(got[r] == Approx(want[r]).epsilon(1e-5));

  // Categories are texts.
  must_run({"export", made("model.onnx"), "--out", f / "texts.onnx", "--export_raw_rows", "--quiet"});
  onnx::ModelProto m;
  REQUIRE(m.ParseFromString(bytes_of(f / "texts.onnx")));
  std::vector<std::string> inputs;
  for (const auto& i : m.graph().input()) inputs.push_back(i.name());
  CHECK(inputs == Words{"Store", "State", "Promo", "Kind", "Month", "Dayofweek", "Temperature", "Visitors", "Distance",
                        "Elapsed"});
  CHECK(m.graph().input(0).type().tensor_type().elem_type() == onnx::TensorProto::STRING);
  const onnx::NodeProto& store = m.graph().node(0);
  CHECK(store.op_type() == "LabelEncoder");
  std::string keys;
  for (const auto& a : store.attribute()) {
    for (const std::string& k : a.strings()) keys += k + ";";
  }
  CHECK(keys == ";1;2;3;10;12;");
  CHECK(m.graph().output(0).name() == "sales");
  const Said none = run_verb({"export", model, "--out", f / "x.onnx", "--export_raw_rows", "--quiet"});
  CHECK(none.id == "E_FEATURES_MISSING");
  const Said half = run_verb({"export", made("model.onnx"), "--out", f / "x.onnx", "--export_raw_rows",
                              "--export_precision", "fp16", "--quiet"});
  CHECK(half.id == "E_USAGE");
}

TEST_CASE("classes of a table are learnt, and one output is none of them", "[tables]") {
  const TempDir f;
  std::string rows = "kind,size,answer\n";
  for (int i = 0; i < 60; ++i)
    rows += std::string(1, "pqr"[i % 3]) + "," + std::to_string(i % 7) + "." + std::to_string(i % 10) + "," +
            (i % 3 == 0 ? "yes" : "no") + "\n";
  write_bytes(f / "t.csv", rows);
  const auto net = [&](const std::string& width, const std::string& weights, const std::string& biases) {
    return save(
        f,
        test::parse("<ir_version: 8, opset_import: [\"\" : 17]> net (int64[N] kind, float[N,1] x) => (float[N," +
                    width + "] logits) <float[4,2] e = {0.1,0.2,0.3,-0.4,0.5,0.6,-0.7,0.8}, float[3," + width +
                    "] w = {" + weights + "}, float[" + width + "] b = {" + biases +
                    "}> { g = Gather (e, kind)  c = Concat <axis = 1> (g, x)  logits = Gemm (c, w, b) }"),
        width + ".onnx");
  };
  const Words flags = {"--train", f / "t.csv", "--target", "answer",       "--categorical", "kind",   "--continuous",
                       "size",    "--device",  "cpu",      "--output_dir", f / "run",       "--quiet"};
  // A target of two classes (yes, no) needs one output.
  must_run(with({net("1", "0.1,0.2,0.3", "0")}, with(flags, {"--max_steps", "1"})));
  CHECK_THAT(bytes_of(f / "run/model.onnx"), ContainsSubstring("bce_logits"));
  const Said mixed = run_verb(with({f / "1.onnx"}, with(flags, {"--text_columns", "kind"})));
  CHECK(mixed.id == "E_USAGE");
  must_run(with({net("2", "0.1,0.2,0.3,0.4,0.5,0.6", "0,0")},
                with(flags, {"--epochs", "20", "--lr", "0.1", "--val_split", "0.2", "--require", "accuracy>=0.95",
                             "--overwrite"})));
  must_run({"predict", f / "run", "--inputs", f / "t.csv", "--out", f / "p.jsonl", "--device", "cpu", "--quiet"});
  CHECK(json_lines(f / "p.jsonl").at(3).at("predicted_label") == "yes");
}

TEST_CASE("the model that a refusal proposes for a table takes it", "[tables]") {
  const TempDir f;
  write_bytes(f / "t.csv", "shop,city,sales,kind\n1,a,2.5,x\n2,b,3.5,y\n3,a,,x\n4,c,1.5,y\n5,b,2.0,y\n6,a,3.0,x\n");
  // Runs the `create` command that a hint recommends, then trains with its model. The target `sales` is a number, the
  // target `kind` has two classes.
  const auto proposed = [&](const std::string& model, const Words& flags) {
    const Words run = with({model, "--train", f / "t.csv", "--device", "cpu", "--output_dir", f / "run", "--max_steps",
                            "1", "--overwrite", "--quiet"},
                           flags);
    const Said refused = run_verb(run);
    CHECK(refused.id.starts_with("E_"));
    const size_t at = refused.hint.find("`create "), json = refused.hint.find('{', at),
                 end = refused.hint.find('}', json);
    REQUIRE(end != std::string::npos);
    const std::string kind = refused.hint.substr(at + 8, refused.hint.find(' ', at + 8) - at - 8);
    must_run({"create", kind, "--model_config", refused.hint.substr(json, end + 1 - json), "--out", f / "new.onnx",
              "--quiet"});
    Words again = run;
    again[0] = f / "new.onnx";
    must_run(again);
    return refused.hint.substr(at, end + 1 - at);
  };
  must_run({"create", "tabular", "--out", f / "tabular.onnx", "--quiet"});
  must_run({"create", "mlp", "--out", f / "mlp.onnx", "--quiet"});
  CHECK(proposed(f / "tabular.onnx", {"--target", "kind", "--categorical", "city", "--continuous", "shop,sales"}) ==
        R"(`create tabular --model_config '{"categories": [4], "continuous": 3, "outputs": 2})");
  CHECK(proposed(f / "tabular.onnx", {"--target", "shop", "--task", "regression", "--categorical", "city,kind"}) ==
        R"(`create tabular --model_config '{"categories": [4, 3], "continuous": 0, "outputs": 1})");
  CHECK(proposed(f / "mlp.onnx", {"--target", "kind", "--continuous", "shop,sales"}) ==
        R"(`create mlp --model_config '{"inputs": 3, "outputs": 2})");
}
