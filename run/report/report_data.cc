// Collects the data of the report page from the files in a run's folder. Curves are thinned, and large tables are
// dropped, so that the page stays small for long runs. Logs are read incrementally.
#include "run/report/report_data.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/fs.h"
#include "base/json_nesting.h"
#include "base/near_path.h"
#include "run/folder/run_files.h"

namespace amp {
namespace {

using nlohmann::json;
constexpr size_t kPoints = 2000;      // largest number of points per curve, more than a screen has columns
constexpr size_t kEvals = 500;        // largest number of evaluations in the data
constexpr size_t kMatrix = 40;        // largest number of classes of a confusion matrix that the page can show
constexpr size_t kNames = 200;        // largest number of classes that are listed individually
constexpr int64_t kFile = 4 << 20;    // largest size in bytes of a file that is embedded unchanged
constexpr int64_t kPlan = 256 << 20;  // largest size in bytes of precision_plan.json, which has one line per node
constexpr size_t kTable = 60;         // largest number of operators in the summary of the precision plan
constexpr const char* kCurves[] = {"step", "loss", "lr", "grad_norm", "loss_scale", "samples_per_s", "memory"};

// Reads a JSON object. Returns null if the file is missing, is not a complete object, or is larger than any file of
// this kind that a run writes.
json small_file(const std::string& path, int64_t most = kFile) {
  if (!path_exists(path) || is_dir(path)) return nullptr;
  std::error_code none;
  if (const auto size = std::filesystem::file_size(path, none); none || size > static_cast<uint64_t>(most))
    return nullptr;
  json j = parse_json(read_file(path).text());
  return j.is_object() ? j : json(nullptr);
}

void drop_large(json& of, const char* name, size_t most) {
  if (of.is_object() && of.contains(name) && of[name].is_structured() && of[name].size() > most) of.erase(name);
}

json bounded(json run) {
  for (const char* metrics : {"initial_metrics", "final_metrics", "metrics_as_trained"}) {
    if (!run.contains(metrics)) continue;
    drop_large(run[metrics], "confusion_matrix", kMatrix);
    drop_large(run[metrics], "per_class", kNames);
    drop_large(run[metrics], "groups", kNames);
  }
  drop_large(run, "labels", kNames);
  drop_large(run, "groups", kNames);
  return run;
}

// Returns a text of an object in an untrusted file, or `otherwise` if the object has no text of this name.
std::string text_in(const json& object, const char* name, const char* otherwise) {
  const json text = object.is_object() ? object.value(name, json()) : json();
  return text.is_string() ? text.get<std::string>() : otherwise;
}

// Counts the nodes of each operator by compute type and by the plan's operator class.
json plan_summary(const std::string& folder) {
  const json plan = small_file(folder + "/precision_plan.json", kPlan);
  if (!plan.is_object() || !plan.contains("nodes")) return nullptr;
  std::map<std::string, json> rows;
  std::map<std::string, int64_t> size;
  int64_t others = 0;
  for (const json& n : plan["nodes"]) {
    const std::string op = text_in(n, "op", "?"), cls = text_in(n, "class", "");
    if (cls == "not-float") {
      ++others;
      continue;
    }
    ++size[op];
    for (const auto& [of, name] : {std::pair{"types", text_in(n, "compute", "fp32")}, {"classes", cls}}) {
      json& count = rows[op][of][name];
      count = count.is_null() ? 1 : count.get<int64_t>() + 1;
    }
  }
  std::vector<std::string> order;
  for (const auto& [op, n] : size) order.push_back(op);
  std::stable_sort(order.begin(), order.end(), [&](const auto& a, const auto& b) { return size[a] > size[b]; });
  if (order.size() > kTable) order.resize(kTable);
  json out = {{"dtype", plan.value("dtype", json())},
              {"warnings", plan.value("warnings", json::array())},
              {"cost", plan.value("cost", json())},
              {"no_arithmetic", others},
              {"operators", json::array()}};
  drop_large(out, "warnings", kTable);
  for (const std::string& op : order) {
    json row = rows[op];
    row["op"] = op;
    out["operators"].push_back(std::move(row));
  }
  return out;
}

}  // namespace

json run_record(const std::string& run_folder) {
  const std::string path = run_folder + "/run.json";
  if (!path_exists(path)) {
    const std::string near = near_path_hint(run_folder);
    fail(Exit::usage, "E_RUN", cat(run_folder, " holds no run: it has no run.json"),
         near.empty() ? "name the `output_dir` of a training run" : near);
  }
  json run = parse_json(read_file(path).text());
  if (!run.is_object()) fail(Exit::usage, "E_RUN", cat(path, " is no JSON object"));
  return run;
}

ReportData::ReportData(std::string folder)
    : folder_(std::move(folder)),
      steps_file_(folder_ + "/metrics.jsonl"),
      evals_file_(folder_ + "/eval.jsonl"),
      steps_(kPoints),
      evals_(kEvals) {}

json ReportData::read() {
  json run = bounded(run_record(folder_));
  steps_file_.read(
      [&] {
        steps_.clear();
        count_ = skipped_ = 0;
      },
      [&](const json& line) {
        json point = json::array();
        for (const char* name : kCurves) point.push_back(line.value(name, json()));
        const bool skip = line.value("skipped", json(false)) == json(true);
        point.push_back(skip);
        ++count_;
        skipped_ += skip;
        steps_.add(std::move(point), skip);
      });
  evals_file_.read([&] { evals_.clear(); }, [&](const json& line) { evals_.add(line); });
  json curves = json::object(), skipped = json::array();
  for (const char* name : kCurves) curves[name] = json::array();
  for (const json& point : steps_.lines()) {
    for (size_t c = 0; c < std::size(kCurves); ++c) curves[kCurves[c]].push_back(point[c]);
    if (point[std::size(kCurves)] == json(true)) skipped.push_back(point[0]);
  }
  if (!plan_ || plan_->is_null()) plan_ = plan_summary(folder_);  // fixed for the whole run
  std::string name = std::filesystem::path(folder_).lexically_normal().string();
  while (name.size() > 1 && name.back() == '/') name.pop_back();
  return {{"name", name},
          {"run", std::move(run)},
          {"steps", std::move(curves)},
          {"count", count_},
          {"skipped", std::move(skipped)},
          {"skipped_count", skipped_},
          {"evals", evals_.lines()},
          {"samples", small_file(folder_ + "/" + kSamplesFile)},
          {"answers", small_file(folder_ + "/" + kAnswersFile)},
          {"lr_range", small_file(folder_ + "/" + kLrRangeFile)},
          {"plan", *plan_}};
}

std::string page_json(const json& data) {
  std::string text;
  for (const char c : data.dump(-1, ' ', false, json::error_handler_t::replace)) {
    if (c == '<') {
      text += "\\u003c";  // in JSON a < occurs only in strings
    } else {
      text += c;
    }
  }
  return text;
}

}  // namespace amp
