// Tests that a run with non-finite losses or metrics ends with exit 0 and a warning, on the console and in its records.
#include <catch2/catch_all.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/safetensors.h"
#include "tests/importer/models.h"
#include "tests/support.h"
#include "tests/tools/verb_run.h"

using namespace amp;
using namespace amp::test;
using Catch::Matchers::ContainsSubstring;

namespace {

// z = h / sum |h|: 0 / 0 for a row of zeros.
const char* const kModel = R"(<ir_version: 8, opset_import: ["" : 17]>
    g (float[N,2] x) => (float[N,2] y)
    <float[2,2] w = {1,0.5,-0.25,1}, int64[1] last = {1}>
    { h = MatMul (x, w)  a = Abs (h)  s = ReduceSum (a, last)  y = Div (h, s) })";

std::string data(const TempDir& f, const std::vector<float>& x) {
  const auto rows = static_cast<int64_t>(x.size() / 2);
  std::vector<int64_t> label;
  for (int64_t i = 0; i < rows; ++i) label.push_back(i % 2);
  write_safetensors(f / "data.safetensors",
                    {{"x", HostTensor::of<float>({rows, 2}, x)}, {"label", HostTensor::of<int64_t>({rows}, label)}});
  return f / "data.safetensors";
}

}  // namespace

TEST_CASE("evaluation names what is not finite", "[not_finite]") {
  const TempDir f;
  const std::string model = save(f, parse(kModel));
  const Said bad = must_run({"eval", model, "--val", data(f, {1, 2, 0, 0, 3, 1, 2, 5}), "--loss", "cross_entropy"});
  CHECK_THAT(bad.err, ContainsSubstring("W_NOT_FINITE") && ContainsSubstring("loss") &&
                          ContainsSubstring("1 of 4 samples have outputs that are NaN or infinite"));
  CHECK(nlohmann::json::parse(bad.out).at("samples_not_finite") == 1);
  const Said good = must_run({"eval", model, "--val", data(f, {1, 2, 1, 0, 3, 1, 2, 5}), "--loss", "cross_entropy"});
  CHECK(good.err.find("W_NOT_FINITE") == std::string::npos);
  CHECK(!nlohmann::json::parse(good.out).contains("samples_not_finite"));
}

TEST_CASE("a run whose losses are not finite says so, and run.json", "[not_finite]") {
  const TempDir f;
  const std::string model = save(f, parse(kModel)), path = data(f, {1, 2, 0, 0, 3, 1, 2, 5});
  const Said s = must_run({model, "--train", path, "--val", path, "--loss", "cross_entropy", "--max_steps", "2",
                           "--batch_size", "4", "--output_dir", f / "run"});
  CHECK_THAT(s.err, ContainsSubstring("W_NOT_FINITE: the training loss of step"));
  CHECK_THAT(s.err, ContainsSubstring("2 of 2 steps"));
  std::ifstream in(f / "run/run.json");
  const nlohmann::json run = nlohmann::json::parse(in);
  REQUIRE(run.at("warnings").size() == 2);
  CHECK_THAT(run["warnings"][0].get<std::string>(), ContainsSubstring("2 of 2 steps"));
  CHECK_THAT(run["warnings"][1].get<std::string>(), ContainsSubstring("1 of 4 samples"));
}

TEST_CASE("predictions that are not finite are counted by output", "[not_finite]") {
  const TempDir f;
  const std::string model = save(f, parse(kModel));
  const auto said = [&](const std::vector<float>& x) {
    const std::string path = data(f, x);
    return must_run({"predict", model, "--inputs", path, "--out", f / "out.npz"}).err;
  };
  CHECK_THAT(said({1, 2, 0, 0, 3, 1, 2, 5}), ContainsSubstring("W_NOT_FINITE: 2 of 8 values of output 'y'"));
  CHECK(said({1, 2, 1, 0, 3, 1, 2, 5}).find("W_NOT_FINITE") == std::string::npos);
  std::ofstream(f / "t.csv") << "a,b\n1,2\n0,0\n";
  const Said table = must_run({"predict", model, "--inputs", f / "t.csv", "--continuous", "a,b", "--task", "regression",
                               "--out", f / "out.csv"});
  CHECK_THAT(table.err, ContainsSubstring("W_NOT_FINITE: 2 of 4 values of output 'y'"));
}
