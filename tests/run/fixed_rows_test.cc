// Models exported with a fixed batch size: 100 rows in batches of this size, the last one short. Losses must be
// PyTorch's (tests/data/fixed_rows/make_fixed_rows.py). Both programs sum in fp32 in different orders, so up to 100
// steps of SGD may change a loss by 2e-5 of its value.
#include <algorithm>
#include <catch2/catch_all.hpp>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/npz.h"
#include "run/check/check.h"
#include "run/evaluate/evaluate.h"
#include "run/evaluate/predict.h"
#include "run/model/fixed_shapes.h"
#include "run/run.h"
#include "tests/errors.h"
#include "tests/support.h"

using namespace amp;
using amp::test::error_of;
using amp::test::TempDir;
using Catch::Approx;

namespace {

std::string data(const std::string& name) { return test::test_data("fixed_rows/" + name); }

nlohmann::json golden() {
  std::ifstream in(data("golden.json"));
  return nlohmann::json::parse(in);
}

RunSpec sgd(const TempDir& f, const std::string& model) {
  RunSpec spec;
  spec.model.model = data(model + ".onnx");
  spec.data.train = spec.data.val = data("data.npz");
  spec.output.output_dir = f / "run";
  spec.objective.loss = {"cross_entropy"};
  spec.optimization.optimizer = "sgd";
  spec.optimization.lr = 0.1;
  spec.schedule.lr_scheduler = "constant";
  spec.optimization.max_grad_norm = 0;
  spec.data.shuffle = false;
  spec.model.dropout = 0.0;
  // The importer cannot decide whether these tensors are weights, so the settings name them as trainable.
  const std::map<std::string, std::vector<std::string>> doubtful = {
      {"expand", {"q"}}, {"repeat", {"q"}}, {"state", {"val_12", "val_13"}}};
  const auto it = doubtful.find(model.substr(0, model.find('_')));
  // In these two files the importer recognizes the weights, because their rows are equal.
  const bool repeated = model == "expand_8_dynamo" || model == "repeat_32_dynamo";
  if (it != doubtful.end() && !repeated) spec.model.trainable = it->second;
  spec.schedule.epochs = 1;
  spec.device.device = "cpu";
  return spec;
}

std::vector<double> losses_of(const std::string& run) {
  std::vector<double> out;
  std::ifstream in(run + "/metrics.jsonl");
  for (std::string line; std::getline(in, line);) out.push_back(nlohmann::json::parse(line).at("loss").get<double>());
  return out;
}

}  // namespace

TEST_CASE("a file of fixed batches trains, evaluates, predicts and exports 100 rows as PyTorch does", "[fixed_rows]") {
  const nlohmann::json all = golden();
  for (const auto& [name, want] : all.items()) {
    INFO(name);
    const TempDir f;
    RunSpec spec = sgd(f, name);
    spec.schedule.gradient_accumulation_steps = 1;
    const auto rows = want.at("rows").get<int64_t>();
    spec.schedule.batch_size = rows;
    spec.sources["batch_size"] = spec.sources["gradient_accumulation_steps"] = "command line";
    const TrainReport report = train(*prepare(spec));
    const std::vector<double> got = losses_of(f / "run"), steps = want.at("steps").get<std::vector<double>>();
    REQUIRE(got.size() == steps.size());
    for (size_t i = 0; i < got.size(); ++i) CHECK(got[i] == Approx(steps[i]).epsilon(2e-5));
    const double after = want.at("after").get<double>();
    REQUIRE(report.result.last);
    CHECK(report.result.last->loss == Approx(after).epsilon(2e-5));
    CHECK(report.result.last->samples == 100);

    RunSpec eval = sgd(f, name);
    eval.model.model = f / "run/model.onnx";
    CHECK(evaluate_model(eval).loss == Approx(after).epsilon(2e-5));
    predict(eval, data("data.npz"), f / "out.npz");
    const std::vector<NamedTensor> out = read_tensor_file(f / "out.npz");
    REQUIRE(out.size() == 1);
    CHECK(out[0].tensor.dims() == Dims{100, 3});
  }
}

TEST_CASE("check finds the batch size that a graph holds", "[fixed_rows]") {
  const nlohmann::json all = golden();
  for (const auto& [name, want] : all.items()) {
    INFO(name);
    RunSpec spec;
    spec.model.model = data(name + ".onnx");
    const CheckReport r = check_model(spec);
    CHECK(r.trains);
    // In models with Reshapes, the fixed number of rows was removed from the graph (freed_rows). Other graphs keep it
    // (rows).
    const bool reshapes = name.starts_with("view") || name.starts_with("heads");
    CHECK((reshapes ? r.fixed.freed_rows : r.fixed.rows) == want.at("rows").get<int64_t>());
    CHECK((reshapes ? r.fixed.rows : r.fixed.freed_rows) == 0);
    // The Expand of the initial state fixes the number of rows.
    if (name == "lstm_8_ts") CHECK(r.fixed.holder.find("/l/Expand") != std::string::npos);
  }
  RunSpec free;
  free.model.model = test::test_data("zoo/lenet_relu_dyn18/model.onnx");
  CHECK(check_model(free).fixed.rows == 0);
}

TEST_CASE("the batch size of a run is the file's: chosen, or refused before anything is written", "[fixed_rows]") {
  const TempDir f;
  RunSpec spec = sgd(f, "lstm_32_dynamo");
  CHECK(prepare(spec)->spec.schedule.batch_size == 32);
  RunSpec small = sgd(f, "gather_2_ts");  // the accumulated step keeps the default of 8 samples
  const auto run = prepare(small);
  CHECK(run->spec.schedule.batch_size == 2);
  CHECK(run->spec.schedule.gradient_accumulation_steps == 4);
  RunSpec large = sgd(f, "expand_8_ts");
  large.schedule.batch_size = 16;
  const Error e = error_of([&] { prepare(large); });
  CHECK(e.id() == "E_BATCH_SIZE");
  CHECK(e.hint().find("`batch_size` 8 `gradient_accumulation_steps` 2") != std::string::npos);
}

TEST_CASE("rows that the exporter stored once for each row of a batch train as one, unless they are asked for",
          "[fixed_rows]") {
  const TempDir f;
  for (const char* model : {"expand_8_dynamo", "token_8_dynamo", "slots_8_dynamo", "state_2_dynamo"}) {
    INFO(model);
    std::vector<std::string> notes;
    const Log log([&](Level, const std::string& line) { notes.push_back(line); });
    RunSpec spec = sgd(f, model);
    const auto run = prepare(spec, {log, {}, {}}, Mode::train);
    std::set<std::string> names;
    for (const SourceValue& v : run->graph().values) {
      if (v.kind == SourceKind::parameter && v.trainable && v.tied_to < 0 && v.name.ends_with(".row")) {
        names.insert(v.name);
        CHECK(numel(v.data.dims()) <= 8);
      }
    }
    CHECK(names.size() == (std::string(model).starts_with("state") ? 2 : 1));
    CHECK(std::any_of(notes.begin(), notes.end(),
                      [](const std::string& n) { return n.find("the copies train as one") != std::string::npos; }));
    spec.model.tie_weights = "none";
    const std::unique_ptr<PreparedRun> untied = prepare(spec);
    for (const SourceValue& v : untied->graph().values) CHECK(v.tied_axis < 0);
  }
}

TEST_CASE("the gradient of a repeated row is the sum over its copies", "[fixed_rows]") {
  const TempDir f;
  std::vector<NamedTensor> batch;
  for (const NamedTensor& t : read_tensor_file(data("data.npz"))) {
    Dims dims = t.tensor.dims();
    dims[0] = 8;
    batch.push_back(
        {t.name, HostTensor(t.tensor.dtype(), dims, std::make_shared<HostTensor>(t.tensor), t.tensor.data())});
  }
  write_tensor_file(f / "batch.npz", batch);
  RunSpec spec = sgd(f, "slots_8_dynamo");
  write_gradients(spec, f / "batch.npz", f / "one.npz");
  spec.model.tie_weights = "none";
  write_gradients(spec, f / "batch.npz", f / "each.npz");
  const std::vector<NamedTensor> one = read_tensor_file(f / "one.npz"), each = read_tensor_file(f / "each.npz");
  const HostTensor *row = find_tensor(one, "view.row"), *rows = find_tensor(each, "view");
  REQUIRE(row);
  REQUIRE(rows);
  CHECK_FALSE(find_tensor(one, "view"));
  const std::vector<double> a = row->to_doubles(), b = rows->to_doubles();
  REQUIRE(b.size() == 8 * a.size());
  for (size_t i = 0; i < a.size(); ++i) {
    double sum = 0;
    for (size_t k = 0; k < 8; ++k) sum += b[k * a.size() + i];
    CHECK(a[i] == Approx(sum).margin(1e-6));
  }
}

TEST_CASE("a batch that is smaller than the file's is padded, and its padding counts for nothing", "[fixed_rows]") {
  const TempDir f;
  RunSpec spec = sgd(f, "repeat_8_ts");
  spec.schedule.batch_size = 5;  // 20 batches, each padded
  train(*prepare(spec));
  // This model has the same weights and a batch size of 2. A step of 5 rows must give the same result.
  RunSpec other = sgd(f, "expand_2_ts");
  other.output.output_dir = f / "other";
  other.schedule.batch_size = 1;
  other.schedule.gradient_accumulation_steps = 5;
  train(*prepare(other));
  const std::vector<double> a = losses_of(f / "run"), b = losses_of(f / "other");
  REQUIRE(a.size() == 20);
  REQUIRE(b.size() == 20);
  for (size_t i = 0; i < a.size(); ++i) CHECK(a[i] == Approx(b[i]).epsilon(2e-5));
}

TEST_CASE("rows that only Reshapes hold are freed", "[fixed_rows]") {
  for (const char* model : {"view_8_ts", "heads_2_dynamo"}) {
    INFO(model);
    const TempDir f;
    RunSpec whole = sgd(f, model);
    whole.schedule.batch_size = 20;
    train(*prepare(whole));
    RunSpec parts = sgd(f, model);
    parts.output.output_dir = f / "parts";
    parts.schedule.batch_size = 2;
    parts.schedule.gradient_accumulation_steps = 10;
    train(*prepare(parts));
    const std::vector<double> a = losses_of(f / "run"), b = losses_of(f / "parts");
    REQUIRE(a.size() == 5);
    REQUIRE(b.size() == 5);
    for (size_t i = 0; i < a.size(); ++i) CHECK(a[i] == Approx(b[i]).epsilon(2e-5));
  }
}
