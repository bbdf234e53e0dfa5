// Inserts style, scripts and data into the embedded page. The content security policy names the scripts by their hash,
// so scripts in a run's data are not executed.
#include "run/report/report_page.h"

#include <ctime>
#include <nlohmann/json.hpp>

#include "base/base64.h"
#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "run/report/page_text.h"
#include "run/settings/values.h"
#include "trainer/tasks/task.h"

namespace amp {
namespace {

using nlohmann::json;

void replace_mark(std::string& page, std::string_view mark, const std::string& by) {
  const size_t at = page.find(mark);
  check(at != std::string::npos, cat("the report's page has no place for ", mark));
  page.replace(at, mark.size(), by);
}

// Returns the hash by which a content security policy allows the inline script.
std::string script_hash(const std::string& page) {
  const std::string begin = "<script>", end = "</script>";
  const size_t from = page.find(begin) + begin.size();
  const std::string script = page.substr(from, page.find(end, from) - from), hex = sha256(script.data(), script.size());
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return "'sha256-" + to_base64(bytes) + "'";
}

std::string embedded(std::string_view name) {
  for (const EmbeddedFile& f : page_texts()) {
    if (f.name == name) return std::string(f.text);
  }
  bug(cat("no embedded file is called ", name));
}

const std::string& empty_page() {
  static const std::string page = [] {
    std::string text = embedded("page.html");
    replace_mark(text, "/*STYLE*/", embedded("page.css"));
    replace_mark(text, "/*SCRIPT*/", embedded("charts.js") + embedded("page.js"));
    replace_mark(text, "SCRIPT_HASH", script_hash(text));
    return text;
  }();
  return page;
}

}  // namespace

json page_data(std::vector<json> runs, bool running) {
  json lower = json::array();
  for (const std::string_view name : metric_names()) {
    if (lower_is_better(std::string(name))) lower.push_back(name);
  }
  return {{"runs", std::move(runs)},
          {"running", running},
          {"lower_is_better", std::move(lower)},
          {"updated", static_cast<int64_t>(std::time(nullptr))}};
}

std::string page_policy() {
  const std::string begin = "http-equiv=\"Content-Security-Policy\" content=\"";
  const std::string& page = empty_page();
  const size_t at = page.find(begin);
  check(at != std::string::npos, "the report's page has no policy");
  return page.substr(at + begin.size(), page.find('"', at + begin.size()) - at - begin.size());
}

std::string page_of(const json& data) {
  std::string page = empty_page();
  replace_mark(page, "/*DATA*/", page_json(data));
  return page;
}

std::string report_page(const std::vector<std::string>& run_folders) {
  std::vector<json> runs;
  for (const std::string& folder : run_folders) runs.push_back(ReportData(folder).read());
  return page_of(page_data(std::move(runs), false));
}

void write_report_page(const std::string& run_folder) {
  ReportData data(run_folder);
  write_report_page(run_folder, data, false);
}

void write_report_page(const std::string& run_folder, ReportData& data, bool running) {
  FileWriter file(run_folder + "/" + kReportFile);
  file.write(page_of(page_data({data.read()}, running)));
  file.commit();
}

}  // namespace amp
