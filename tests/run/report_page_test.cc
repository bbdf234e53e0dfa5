// The HTML report of a run: it contains the data of the run's files, escaped so that no text can break out of it, and
// bounded in size.
#include "run/report/report_page.h"

#include <sys/stat.h>

#include <catch2/catch_all.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/base64.h"
#include "base/hash.h"
#include "run/evaluate/samples.h"
#include "run/folder/run_files.h"
#include "run/report/jsonl_reader.h"
#include "run/report/metrics_csv.h"
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
    metrics << json{{"step", i + 1},       {"loss", i == 3 ? json() : json(1.0 / (i + 1))},
                    {"lr", 0.1},           {"grad_norm", 1},
                    {"loss_scale", 1024},  {"skipped", i == 4321},
                    {"samples_per_s", 10}, {"memory", 1}}
                   .dump()
            << '\n';
  }
  metrics << "{\"step\":";  // cut off when the run was killed
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

TEST_CASE("no text of a run's data leaves its place in the page, and no script but the page's own may run") {
  const TempDir f;
  const std::string hostile = "</script><script>alert(1)</script><!--<img src=x onerror=alert(2)>\xff\u2028";
  const std::string folder = write_run(f, "a", 3, {{"config", {{"train", "</SCRIPT >"}}}, {"labels", {"<b>"}}});
  std::ofstream(folder + "/" + kSamplesFile)
      << json{{"worst",
               {{{"label", "</script>"}, {"text", json::array({json::array({"</script>", "<!-- <script>"})})}}}}}
             .dump();
  std::ofstream(folder + "/eval.jsonl", std::ios::app) << "{\"step\":6,\"</script>\":1}\n";
  const std::string page = report_page({folder});
  const auto count = [&](const std::string& part) {
    size_t n = 0;
    for (size_t at = 0; (at = page.find(part, at)) != std::string::npos; ++at) ++n;
    return n;
  };
  CHECK(count("<script") == 2);  // one script element for the data and one for the page's code
  CHECK(count("</script") == 2);
  CHECK(count("<!--") == 0);
  CHECK(data_of(page)["runs"][0]["samples"]["worst"][0]["text"][0][1] == "<!-- <script>");
  CHECK(page_json(hostile).find('<') == std::string::npos);
  CHECK(json::parse(page_json(json(hostile))).get<std::string>().starts_with("</script><script>alert(1)"));

  const size_t from = page.find("<script>") + 8;
  const std::string script = page.substr(from, page.find("</script>", from) - from),
                    hex = sha256(script.data(), script.size());
  std::string digest;
  for (size_t i = 0; i < hex.size(); i += 2) digest += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  CHECK(page.find("default-src 'none'; script-src 'sha256-" + to_base64(digest) + "'; ") != std::string::npos);
  for (const char* outside : {"src=\"", "href=", "@import", "url("}) CHECK(page.find(outside) == std::string::npos);
}

TEST_CASE("of a long run every n-th step is drawn, and those that were skipped") {
  const TempDir f;
  const json data =
      data_of(report_page({write_run(f, "a", 5001, json::object()), write_run(f, "b", 2, json::object())}));
  const json& steps = data["runs"][0]["steps"]["step"];
  CHECK(steps.size() == 1252);  // every fourth step from 1 on, which includes the last; and the skipped step 4322
  CHECK(steps.back() == 5001);
  CHECK(data["runs"][0]["skipped"] == json{4322});
  CHECK(data["runs"][0]["count"] == 5001);
  CHECK(std::find(steps.begin(), steps.end(), json(4322)) != steps.end());
  CHECK(data["runs"][1]["steps"]["step"].size() == 2);
}

TEST_CASE("a page stays small, however much a run wrote") {
  const TempDir f;
  json counts = json::array(), names = json::array();
  for (int i = 0; i < 300; ++i) {
    counts.push_back(std::vector<int>(300, 7));
    names.push_back("class " + std::to_string(i));
  }
  const std::string folder = write_run(
      f, "a", 30000, {{"labels", names}, {"final_metrics", {{"accuracy", 0.5}, {"confusion_matrix", counts}}}});
  {
    std::ofstream evals(folder + "/eval.jsonl");
    for (int i = 0; i < 5000; ++i) evals << "{\"step\":" << i << ",\"loss\":1,\"accuracy\":0.5}\n";
    std::ofstream samples(folder + "/" + kSamplesFile);
    samples << "{\"worst\":\"" << std::string(5 << 20, 'x') << "\"}";  // the content of a file that no run writes
  }
  const std::string page = report_page({folder});
  CHECK(page.size() < 1000000);
  const json data = data_of(page)["runs"][0];
  CHECK_FALSE(data["run"]["final_metrics"].contains("confusion_matrix"));
  CHECK_FALSE(data["run"].contains("labels"));
  CHECK(data["evals"].size() <= 501);
  CHECK(data["evals"].back()["step"] == 4999);
  CHECK(data["samples"].is_null());
}

TEST_CASE("a growing file is read on, and from its beginning where it was replaced") {
  const TempDir f;
  const std::string path = f / "lines";
  std::vector<int> seen;
  int begins = 0;
  JsonlReader lines(path);
  const auto look = [&] {
    lines.read([&] { ++begins, seen.clear(); }, [&](const json& j) { seen.push_back(j["n"]); });
  };
  look();
  CHECK(begins == 0);
  std::ofstream(path) << "{\"n\":1}\nno json\n[2]\n{\"n\":3";
  look();
  CHECK(seen == std::vector{1});
  std::ofstream(path, std::ios::app) << "3}\n{\"n\":4}\n";
  look();
  CHECK(seen == std::vector{1, 33, 4});
  CHECK(begins == 1);
  std::ofstream(f / "other") << "{\"n\":5}\n";
  std::filesystem::rename(f / "other", path);
  look();
  CHECK(seen == std::vector{5});
}

TEST_CASE("metrics as CSV: a row a step from 1, evaluations in the row of the steps before them") {
  const TempDir f;
  const std::string a =
      write_run(f, "a", 2, {{"initial_metrics", {{"loss", 3}, {"accuracy", 0.25}, {"per_class", {1}}}}});
  std::ofstream(a + "/eval.jsonl") << "{\"step\":2,\"loss\":0.5,\"accuracy\":null,\"best\":true}\n";
  const std::string head =
      "step,loss,lr,loss_scale,grad_norm,skipped,memory,samples_per_s,eval_loss,eval_accuracy,eval_best\n";
  CHECK(metrics_csv({a}) == head +
                                "0,,,,,,,,3,0.25,\n"
                                "1,1.0,0.1,1024,1,0,1,10,,,\n"
                                "2,0.5,0.1,1024,1,0,1,10,0.5,,1\n");
  const std::string both = metrics_csv({a, write_run(f, "b,\"", 1, json::object())});
  CHECK(both.starts_with("run," + head));
  CHECK(both.find("\n\"" + (f / "b,\"\"") + "\",1,1.0,") != std::string::npos);
  expect_error(
      "E_RUN", "holds no run", [&] { metrics_csv({f.path.string()}); }, Exit::usage);
}

TEST_CASE("runs are compared as a table: settings that differ, time and memory, metrics with the best marked") {
  const TempDir f;
  const auto run = [&](const std::string& name, const std::string& dtype, double seconds, int mebibytes, double score) {
    return write_run(f, name, 2,
                     {{"config", {{"dtype", dtype}, {"lr", 1}, {"output_dir", name}}},
                      {"precision", {{"dtype", dtype}}},
                      {"timing", {{"train_seconds", seconds}}},
                      {"peak_memory_bytes", mebibytes << 20},
                      {"steps", {{"skipped", 3}}},
                      {"told_metrics", {"miou", "dice"}},
                      {"initial_metrics", {{"miou", 0.25}, {"dice", 0.125}, {"loss", 7}}},
                      {"final_metrics", {{"miou", score}, {"dice", nullptr}, {"loss", 1}}}});
  };
  CHECK(report_table({run("fp32", "float32", 20, 200, 0.7512345), run("bf16", "bfloat16", 12.34, 150, 0.75) + "/"}) ==
        "run      dtype  computes in           time     peak memory  skipped steps  miou before     miou   dice\n"
        "fp32   float32      float32         20.0 s         200 MiB              3         0.25  0.75123*     -\n"
        "bf16  bfloat16     bfloat16  12.3 s (0.62)  150 MiB (0.75)              3         0.25     0.75      -\n");
  // a run that was stopped, or that an older version wrote
  CHECK(report_table({write_run(f, "old", 2, json::object())}).find("-") != std::string::npos);
}

TEST_CASE("files of a run with values of other types are shown as far as they can be") {
  const TempDir f;
  const std::string a =
      write_run(f, "a", 1, {{"final_metrics", 1}, {"labels", {{"a", 1}}}, {"told_metrics", {"a~b", 7}}});
  std::ofstream(a + "/precision_plan.json")
      << R"({"nodes": [1, "x", {"op": 2}, {"op": "Add", "class": [], "compute": 3}]})";
  std::filesystem::remove(a + "/metrics.jsonl");
  REQUIRE(::mkfifo((a + "/metrics.jsonl").c_str(), 0600) == 0);  // a named pipe must not block the reader
  const json data = data_of(report_page({a})).at("runs").at(0);
  CHECK(data["plan"]["operators"].size() == 2);
  CHECK(data["plan"]["operators"][0]["op"] == "?");
  CHECK(data["count"] == 0);
  CHECK(report_table({a}).find("a~b before  a~b") != std::string::npos);
  const std::string b = write_run(f, "b", 1, {{"told_metrics", {"x\x1b[2J"}}, {"precision", {{"dtype", "\x1b[1m"}}}});
  CHECK(report_table({b}).find('\x1b') == std::string::npos);
}

TEST_CASE("a folder without a run has no page") {
  const TempDir f;
  expect_error(
      "E_RUN", "holds no run", [&] { report_page({f.path.string()}); }, Exit::usage);
  std::ofstream(f / "run.json") << "[";
  expect_error(
      "E_RUN", "no JSON object", [&] { report_page({f.path.string()}); }, Exit::usage);
}
