// Runs with --save_strategy: which checkpoints exist afterwards.
#include <catch2/catch_all.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/file.h"
#include "run/run.h"
#include "tests/errors.h"
#include "tests/run/lenet_run.h"
#include "tests/support.h"
#include "trainer/loop/checkpoint.h"

using namespace amp;
using amp::test::error_of;
using amp::test::lenet_run;
using amp::test::TempDir;

namespace {

void trained(const RunSpec& spec) { train(*prepare(spec)); }

// Returns a run of twelve epochs of one step, each evaluated.
RunSpec short_epochs(const TempDir& f, const std::string& strategy) {
  RunSpec spec = lenet_run(f, "run", 12);
  spec.output.save_strategy = strategy;
  spec.output.save_total_limit = 0;
  return spec;
}

std::vector<int64_t> saved(const RunSpec& spec) { return list_checkpoints(spec.output.output_dir + "/checkpoints"); }

std::vector<int64_t> all_steps() {
  std::vector<int64_t> steps(12);
  std::iota(steps.begin(), steps.end(), 1);
  return steps;
}

// Returns the step of the last line of eval.jsonl with "best": true.
int64_t best_step(const RunSpec& spec) {
  int64_t best = -1;
  std::ifstream file(spec.output.output_dir + "/eval.jsonl");
  for (std::string line; std::getline(file, line);) {
    const nlohmann::json row = nlohmann::json::parse(line);
    if (row.at("best").get<bool>()) best = row.at("step").get<int64_t>();
  }
  return best;
}

bool contains(const std::vector<int64_t>& steps, int64_t step) {
  return std::find(steps.begin(), steps.end(), step) != steps.end();
}

}  // namespace

TEST_CASE("epoch saves at the end of each epoch", "[save_strategy]") {
  const TempDir f;
  const RunSpec spec = short_epochs(f, "epoch");
  trained(spec);
  CHECK(saved(spec) == all_steps());
}

TEST_CASE("steps saves at its steps, at the last one, and at new best evaluations", "[save_strategy]") {
  const TempDir f;
  RunSpec spec = short_epochs(f, "steps");
  spec.output.save_steps = 5;
  spec.optimization.lr = 0;  // no evaluation is better than the first
  trained(spec);
  CHECK(saved(spec) == std::vector<int64_t>{1, 5, 10, 12});
}

TEST_CASE("no saves nothing, and the model is the same", "[save_strategy]") {
  const TempDir f, other;
  const RunSpec spec = short_epochs(f, "no"), every = short_epochs(other, "epoch");
  trained(spec);
  trained(every);
  CHECK(saved(spec).empty());
  CHECK((read_file(spec.output.output_dir + "/model.onnx").text() ==
         read_file(every.output.output_dir + "/model.onnx").text()));
}

TEST_CASE("auto has the last and the best checkpoint, however short the epochs", "[save_strategy]") {
  const TempDir f, other;
  RunSpec spec = short_epochs(f, "auto"), every = short_epochs(other, "epoch");
  for (RunSpec* s : {&spec, &every}) {
    s->optimization.lr = 0.05;  // early evaluations are the best ones: later ones must not replace them
    s->output.export_weights = "best";
  }
  trained(spec);
  trained(every);
  const int64_t best = best_step(spec);
  CHECK(best == best_step(every));
  CHECK(contains(saved(spec), 12));
  CHECK(contains(saved(spec), best));
  // Held in memory or written at once, the best checkpoint has the same weights.
  CHECK((read_file(spec.output.output_dir + "/model.onnx").text() ==
         read_file(every.output.output_dir + "/model.onnx").text()));
}

TEST_CASE("strategies that contradict other settings are refused", "[save_strategy]") {
  const TempDir f;
  RunSpec spec = short_epochs(f, "steps");
  CHECK(error_of([&] { trained(spec); }).exit() == Exit::usage);
  spec.output.save_strategy = "no";
  spec.output.save_steps = 2;
  CHECK(error_of([&] { trained(spec); }).exit() == Exit::usage);
  spec.output.save_steps = 0;
  spec.output.export_weights = "best";
  CHECK(error_of([&] { trained(spec); }).exit() == Exit::usage);
}
