// Tests that held-out rows are not augmented, and that nothing is fitted on them. The test changes held-out rows; all
// fitted values must stay the same.
#include <algorithm>
#include <catch2/catch_all.hpp>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <set>

#include "base/text.h"
#include "data/features/features.h"
#include "run/model/build.h"
#include "run/prepare/prepare.h"
#include "tests/support.h"

using namespace amp;
using amp::test::TempDir;
using Ints = std::vector<int64_t>;

namespace {

Ints all_of(const Dataset& data) {
  Ints samples(static_cast<size_t>(data.size()));
  std::iota(samples.begin(), samples.end(), int64_t{0});
  return samples;
}

bool same(const HostTensor& a, const HostTensor& b) {
  return a.dtype() == b.dtype() && a.dims() == b.dims() &&
         std::memcmp(a.data(), b.data(), static_cast<size_t>(a.bytes())) == 0;
}

bool same(const Batch& a, const Batch& b) {
  return a.inputs.size() == b.inputs.size() && same(a.labels, b.labels) &&
         std::all_of(a.inputs.begin(), a.inputs.end(),
                     [&](const auto& input) { return same(input.second, b.inputs.at(input.first)); });
}

// Writes `each` gray pictures of two kinds, without symmetries, as folders of classes.
void write_pictures(const std::string& folder, int each_a, int each_b, int seed) {
  for (const auto& [name, each] : {std::pair{"a", each_a}, {"b", each_b}}) {
    std::filesystem::create_directories(folder + "/" + name);
    for (int i = 0; i < each; ++i) {
      std::string bytes = "P5 28 28 255\n";
      for (int p = 0; p < 28 * 28; ++p) bytes += static_cast<char>((p * 7 + p / 28 * (i + seed) + i * 29) % 251);
      std::ofstream(cat(folder, "/", name, "/", i, ".pgm"), std::ios::binary) << bytes;
    }
  }
}

RunSpec pictures_run(const TempDir& f) {
  write_pictures(f / "train", 10, 7, 1);
  write_pictures(f / "val", 4, 4, 50);
  create_model({.model = "lenet"}, f / "lenet.onnx");
  RunSpec spec;
  spec.model.model = f / "lenet.onnx";
  spec.model.num_labels = 2;
  spec.data.train = f / "train";
  spec.data.images.transforms = "random_crop 28 padding=4 | horizontal_flip";
  spec.data.images.eval_transforms = "none";
  spec.schedule.batch_size = 4;
  spec.schedule.max_steps = 1;
  spec.device.device = "cpu";
  return spec;
}

// Returns the rows of a table with a category, two numbers and a number as the target.
std::vector<std::string> table_rows() {
  std::vector<std::string> rows;
  for (int i = 0; i < 40; ++i)
    rows.push_back(cat(std::string(1, "abcd"[i % 4]), ",", i * 37 % 41, ",", i * 11 % 17 - 8, ",", i * 13 % 29));
  return rows;
}

RunSpec table_run(const TempDir& f, const std::vector<std::string>& rows) {
  std::ofstream(f / "t.csv") << "kind,size,weight,price\n" << join(rows, "\n") << "\n";
  RunSpec spec;
  spec.model.model = f / "tabular.onnx";
  spec.data.train = f / "t.csv";
  spec.data.tables.categorical = {"kind"};
  spec.data.tables.continuous = {"size", "weight"};
  spec.data.tables.target = "price";
  spec.data.tables.target_transform = "standard";
  spec.schedule.batch_size = 4;
  spec.schedule.max_steps = 1;
  spec.device.device = "cpu";
  return spec;
}

std::unique_ptr<PreparedRun> prepared(const RunSpec& spec) { return prepare(spec, {}, Mode::estimate); }

// Returns the rows of the table on which the run trains.
std::set<int64_t> trained_rows(const PreparedRun& run) {
  const Dataset& train = *run.data.train;
  const Ints rows = train.batch(all_of(train)).samples;
  return {rows.begin(), rows.end()};
}

}  // namespace

TEST_CASE("held-out images are not augmented", "[held_out]") {
  const TempDir f;
  RunSpec spec = pictures_run(f);
  const bool split = GENERATE(true, false);
  if (split)
    spec.data.val_split = 0.25;
  else
    spec.data.val = f / "val";
  RunSpec plain = spec;
  plain.data.images.transforms = "none";
  if (GENERATE(true, false)) spec.data.images.mixup = 0.4;
  const auto run = prepared(spec), without = prepared(plain);
  const Dataset &train = *run->data.train, &val = *run->data.val;
  const Batch want = without->data.val->batch(all_of(val));
  CHECK(val.size() == (split ? 4 : 8));
  CHECK(same(val.batch(all_of(val)), want));
  for (int64_t epoch = 0; epoch < 3; ++epoch) CHECK(same(val.training_batch(all_of(val), epoch), want));
  // The training data are augmented, so that the comparison above can fail.
  const Ints some = all_of(train);
  CHECK_FALSE(same(train.training_batch(some, 1), train.training_batch(some, 2)));
  CHECK_FALSE(same(train.training_batch(some, 1), without->data.train->batch(some)));
}

TEST_CASE("statistics, categories and the target's scale are fitted on rows that are trained on", "[held_out]") {
  const TempDir f;
  create_model({.model = "tabular", .config = R"({"categories": [8], "continuous": 2, "hidden": [8], "outputs": 1})"},
               f / "tabular.onnx");
  const std::vector<std::string> rows = table_rows();
  RunSpec spec = table_run(f, rows);
  SECTION("a share is held out") { spec.data.val_split = 0.25; }
  SECTION("rows beyond the limit") { spec.data.limit_train = 20; }
  SECTION("both") {
    spec.data.val_split = 0.25;
    spec.data.limit_train = 28;
  }
  SECTION("a file of validation data") {
    std::ofstream(f / "v.csv") << "kind,size,weight,price\nz,1e6,-1e6,1e7\ny,,-1e6,1e7\n";
    spec.data.val = f / "v.csv";
    spec.data.limit_train = 30;
  }
  const auto run = prepared(spec);
  const std::set<int64_t> used = trained_rows(*run);
  const std::string fitted = run->features->json();
  REQUIRE(used.size() < rows.size());
  std::vector<std::string> changed = rows;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (!used.contains(static_cast<int64_t>(i))) changed[i] = i % 2 ? "z,,-1e6,1e7" : "y,1e6,1e6,-1e7";
  }
  table_run(f, changed);
  const auto again = prepared(spec);
  REQUIRE(trained_rows(*again) == used);
  CHECK(again->features->json() == fitted);
  changed[static_cast<size_t>(*used.begin())] = "x,77,-99,1e5";
  table_run(f, changed);
  CHECK(prepared(spec)->features->json() != fitted);
}

TEST_CASE("balanced class weights count the rows that are trained on", "[held_out]") {
  const TempDir f;
  RunSpec spec = pictures_run(f);
  spec.data.val_split = 0.25;
  spec.objective.loss = {"cross_entropy,class_weights=balanced"};
  const auto run = prepared(spec);
  const Ints labels = run->data.train->labels_of(all_of(*run->data.train)).to_ints();
  const auto n = static_cast<double>(labels.size());
  const std::vector<double>& weights = run->ready.objective.losses.parts.at(0).list("class_weights");
  REQUIRE(weights.size() == 2);
  for (const int64_t c : {0, 1}) {
    const auto of_class = static_cast<double>(std::count(labels.begin(), labels.end(), c));
    CHECK(weights[static_cast<size_t>(c)] == Catch::Approx(n / (2 * of_class)));
    // Not the weight that all 34 rows would give.
    CHECK(std::abs(weights[static_cast<size_t>(c)] - 17.0 / (c ? 14 : 20)) > 0.01);
  }
}
