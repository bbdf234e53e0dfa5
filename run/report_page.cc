#include "run/report_page.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>

#include "base/error.h"
#include "base/file.h"
#include "base/fs.h"
#include "base/text.h"
#include "run/page_text.h"

namespace amp {
namespace {

using nlohmann::json;
constexpr int64_t kPoints = 2000;  // of a curve: more than a screen has columns
constexpr const char* kCurves[] = {"step", "loss", "lr", "grad_norm", "loss_scale", "samples_per_s", "memory"};

// Lines of a file that may be growing, or cut off by a kill: what is no JSON object is left out.
std::vector<json> lines_of(const std::string& path) {
  std::vector<json> out;
  if (!path_exists(path)) return out;
  const FileBytes file = read_file(path);
  for (const std::string& line : split(std::string(file.text()), '\n')) {
    json j = json::parse(line, nullptr, false);
    if (j.is_object()) out.push_back(std::move(j));
  }
  return out;
}

json described(const std::string& folder) {
  json run = run_record(folder);
  const std::vector<json> steps = lines_of(folder + "/metrics.jsonl");
  const auto stride = static_cast<size_t>((static_cast<int64_t>(steps.size()) + kPoints - 1) / kPoints);
  json curves = json::object(), skipped = json::array();
  for (const char* name : kCurves) curves[name] = json::array();
  for (size_t i = 0; i < steps.size(); ++i) {
    const bool skip = steps[i].value("skipped", json(false)) == json(true);
    if (skip) skipped.push_back(steps[i].value("step", json()));
    if (!skip && i % stride != 0 && i + 1 != steps.size()) continue;
    for (const char* name : kCurves) curves[name].push_back(steps[i].value(name, json()));
  }
  std::string name = std::filesystem::path(folder).lexically_normal().string();
  while (name.size() > 1 && name.back() == '/') name.pop_back();
  return {{"name", name},
          {"run", std::move(run)},
          {"steps", std::move(curves)},
          {"skipped", std::move(skipped)},
          {"evals", lines_of(folder + "/eval.jsonl")}};
}

}  // namespace

json run_record(const std::string& run_folder) {
  const std::string path = run_folder + "/run.json";
  if (!path_exists(path)) {
    fail(Exit::usage, "E_RUN", cat(run_folder, " holds no run: it has no run.json"),
         "name the --output_dir of a training run");
  }
  json run = json::parse(read_file(path).text(), nullptr, false);
  if (!run.is_object()) fail(Exit::usage, "E_RUN", cat(path, " is no JSON object"));
  return run;
}

std::string report_page(const std::vector<std::string>& run_folders) {
  json data = {{"runs", json::array()}};
  for (const std::string& folder : run_folders) data["runs"].push_back(described(folder));
  std::string text = data.dump(-1, ' ', false, json::error_handler_t::replace);
  for (size_t at = 0; (at = text.find("</", at)) != std::string::npos; at += 3)
    text.replace(at, 2, "<\\/");  // no tag ends it
  std::string page;
  for (const EmbeddedFile& f : page_texts()) {
    if (f.name == "report_page.html") page = f.text;
  }
  const std::string mark = "/*DATA*/";
  const size_t at = page.find(mark);
  check(at != std::string::npos, "the report's page has no place for its data");
  return page.replace(at, mark.size(), text);
}

void write_report_page(const std::string& run_folder) {
  FileWriter file(run_folder + "/" + kReportFile);
  file.write(report_page({run_folder}));
  file.commit();
}

}  // namespace amp
