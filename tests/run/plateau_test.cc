// A run with reduce_lr_on_plateau: the learning rates of its steps, also if it is resumed in the middle.
#include <catch2/catch_all.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

#include "run/run.h"
#include "tests/errors.h"
#include "tests/run/lenet_run.h"
#include "tests/support.h"

using namespace amp;
using amp::test::error_of;
using amp::test::TempDir;

namespace {

RunSpec plateau(const TempDir& f, const std::string& run, int64_t steps) {
  RunSpec spec = test::lenet_run(f, run, steps);
  spec.optimization.lr = 1e-9;  // no metric improves by more than the threshold
  spec.schedule.lr_scheduler = "reduce_lr_on_plateau";
  spec.schedule.lr_scheduler_kwargs = "factor=0.5,patience=1,eps=0";
  spec.evaluation.eval_steps = 1;
  return spec;
}

std::vector<double> rates(const std::string& folder) {
  std::vector<double> out;
  std::ifstream file(folder + "/metrics.jsonl");
  for (std::string line; std::getline(file, line);) out.push_back(nlohmann::json::parse(line).at("lr"));
  return out;
}

}  // namespace

TEST_CASE("the rate falls when evaluations are no better, in a resumed run as in a whole one", "[resume]") {
  const TempDir f;
  train(*prepare(plateau(f, "whole", 7)));
  const std::vector<double> whole = rates(f / "whole");
  // The first evaluation is the best. Afterwards the rate is reduced after every second evaluation.
  CHECK(whole == std::vector<double>{1e-9, 1e-9, 1e-9, 0.5e-9, 0.5e-9, 0.25e-9, 0.25e-9});
  train(*prepare(plateau(f, "run", 4)));
  RunSpec more = plateau(f, "run", 7);
  more.output.resume = "auto";
  train(*prepare(more));
  CHECK(rates(f / "run") == whole);
}

TEST_CASE("a plateau needs evaluations", "[settings]") {
  const TempDir f;
  RunSpec spec = plateau(f, "run", 1);
  spec.data.val.clear();
  const Error e = error_of([&] { prepare(spec); });
  CHECK(e.exit() == Exit::usage);
  CHECK(e.hint().find("`val_split`") != std::string::npos);
}
