// The page of a run: what it holds is what the run's files hold, in a form that no text of them can leave.
#include "run/report_page.h"

#include <catch2/catch_all.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/errors.h"
#include "tests/support.h"

using namespace amp;
using amp::test::expect_error;
using amp::test::TempDir;
using nlohmann::json;

namespace {

std::string write_run(const TempDir& f, const std::string& name, int steps, const json& run) {
  const std::string folder = f / name;
  std::filesystem::create_directories(folder);
  std::ofstream metrics(folder + "/metrics.jsonl");
  for (int i = 0; i < steps; ++i) {
    metrics << json{{"step", i},           {"loss", i == 3 ? json() : json(1.0 / (i + 1))},
                    {"lr", 0.1},           {"grad_norm", 1},
                    {"loss_scale", 1024},  {"skipped", i == 4321},
                    {"samples_per_s", 10}, {"memory", 1}}
                   .dump()
            << '\n';
  }
  metrics << "{\"step\":";  // cut off by a kill
  std::ofstream(folder + "/run.json") << run;
  std::ofstream(folder + "/eval.jsonl") << "{\"step\":5,\"loss\":0.5,\"accuracy\":0.75}\n";
  return folder;
}

json data_of(const std::string& page) {
  const std::string begin = "<script id=\"data\" type=\"application/json\">";
  const size_t at = page.find(begin) + begin.size();
  return json::parse(page.substr(at, page.find("</script>", at) - at));
}

}  // namespace

TEST_CASE("a run's page holds its curves, evaluations and record") {
  const TempDir f;
  const json record = {{"config", {{"model", "</script><b>'\"&"}}}, {"finished", true}};
  const json data = data_of(report_page({write_run(f, "a", 10, record)})).at("runs").at(0);
  CHECK(data["run"] == record);
  CHECK(data["steps"]["step"].size() == 10);
  CHECK(data["steps"]["loss"][3].is_null());
  CHECK(data["steps"]["loss"][9] == 0.1);
  CHECK(data["evals"][0]["accuracy"] == 0.75);
  CHECK(data["name"].get<std::string>().ends_with("/a"));
}

TEST_CASE("of a long run every n-th step is drawn, and all that were skipped") {
  const TempDir f;
  const json data =
      data_of(report_page({write_run(f, "a", 5001, json::object()), write_run(f, "b", 2, json::object())}));
  const json& steps = data["runs"][0]["steps"]["step"];
  CHECK(steps.size() == 1669);  // every third from 0, with 4321 and the last
  CHECK(steps.back() == 5000);
  CHECK(data["runs"][0]["skipped"] == json{4321});
  CHECK(std::find(steps.begin(), steps.end(), json(4321)) != steps.end());
  CHECK(data["runs"][1]["steps"]["step"].size() == 2);
}

TEST_CASE("runs are compared as a table: time and memory as multiples of the first's, what the summary told") {
  const TempDir f;
  const auto run = [&](const std::string& name, const std::string& dtype, double seconds, int mebibytes, double score) {
    return write_run(f, name, 2,
                     {{"precision", {{"dtype", dtype}}},
                      {"timing", {{"train_seconds", seconds}}},
                      {"peak_memory_bytes", mebibytes << 20},
                      {"steps", {{"skipped", 3}}},
                      {"told_metrics", {"miou", "dice"}},
                      {"initial_metrics", {{"miou", 0.25}, {"dice", 0.125}, {"loss", 7}}},
                      {"final_metrics", {{"miou", score}, {"dice", nullptr}, {"loss", 1}}}});
  };
  CHECK(report_table({run("fp32", "float32", 20, 200, 0.7512345), run("bf16", "bfloat16", 12.34, 150, 0.75) + "/"}) ==
        "run   computes in           time     peak memory  skipped steps  miou before     miou  dice\n"
        "fp32      float32         20.0 s         200 MiB              3         0.25  0.75123     -\n"
        "bf16     bfloat16  12.3 s (0.62)  150 MiB (0.75)              3         0.25     0.75     -\n");
  // a run that was stopped, or of an older version
  CHECK(report_table({write_run(f, "old", 2, json::object())}).find("-") != std::string::npos);
}

TEST_CASE("a folder without a run has no page") {
  const TempDir f;
  expect_error(
      "E_RUN", "holds no run", [&] { report_page({f.path.string()}); }, Exit::usage);
  std::ofstream(f / "run.json") << "[";
  expect_error(
      "E_RUN", "no JSON object", [&] { report_page({f.path.string()}); }, Exit::usage);
}
