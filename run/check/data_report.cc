// Collects the problems of a DataReport, and formats it as JSON and as lines for users.
#include "run/check/data_report.h"

#include <nlohmann/json.hpp>

#include "base/number_text.h"
#include "base/terminal_text.h"
#include "base/text.h"
#include "data/label_spelling.h"

namespace amp {

static constexpr size_t kReportedProblems = 20;

void DataReport::problem(const std::string& where, const std::string& what) {
  ++problems;
  if (first_problems.size() < kReportedProblems) first_problems.push_back({where, what});
}

void DataReport::notes(const std::vector<std::string>& sentences) {
  for (const std::string& s : sentences) {
    const size_t colon = s.find(": ");
    problem(s.substr(0, colon), colon == std::string::npos ? s : s.substr(colon + 2));
  }
}

void DataReport::skipped(const std::vector<SkippedRow>& rows) {
  for (const SkippedRow& row : rows) notes({row.reason});
}

void DataReport::check_spelling(const FileReport& f) {
  std::vector<std::string> labels;
  for (const auto& [label, rows] : f.labels) labels.push_back(label);
  for (const std::string& what : suspicious_labels(labels)) problem(f.name, what);
}

static nlohmann::ordered_json columns_json(const std::vector<ColumnReport>& columns) {
  nlohmann::ordered_json out = nlohmann::ordered_json::array();
  for (const ColumnReport& c : columns) {
    out.push_back({{"name", c.name}, {"kind", c.kind}, {"values", c.values}, {"missing", c.missing}});
    if (c.kind == "categorical") {
      out.back()["unknown"] = c.unknown;
    } else {
      out.back().update({{"low", c.low}, {"mean", c.mean}, {"high", c.high}});
    }
  }
  return out;
}

static std::string column_line(const ColumnReport& c) {
  const bool numbers = c.kind != "categorical";
  return cat("  ", c.kind, " ", printable(c.name), ": ", with_thousands(c.values), numbers ? " numbers" : " values",
             numbers && c.values ? cat(" from ", c.low, " to ", c.high, ", mean ", c.mean) : std::string(),
             c.missing ? cat(", ", with_thousands(c.missing), " missing") : std::string(),
             c.unknown ? cat(", ", with_thousands(c.unknown), " rows unknown to the training data") : std::string());
}

std::string DataReport::json() const {
  using Json = nlohmann::ordered_json;
  Json all = {
      {"task", task}, {"files", Json::array()}, {"validation_rows_in_training", in_both}, {"problems", problems}};
  for (const FileReport& f : files) {
    Json lengths_json = Json::array();
    for (const auto& [to, rows] : f.lengths) lengths_json.push_back({{"up_to", to}, {"rows", rows}});
    all["files"].push_back({{"name", f.name},
                            {"rows", f.rows},
                            {"labels", f.labels},
                            {"tokens", {{"shortest", f.shortest}, {"median", f.median}, {"longest", f.longest}}},
                            {"lengths", lengths_json},
                            {"cut", f.cut},
                            {"duplicates", f.duplicates}});
    if (!f.columns.empty()) {
      for (const char* key : {"tokens", "lengths", "cut"}) all["files"].back().erase(key);
      all["files"].back()["columns"] = columns_json(f.columns);
    }
    if (!f.images) continue;
    const auto size = [](const std::pair<int64_t, int64_t>& s) { return Json{s.first, s.second}; };
    Json& j = all["files"].back();
    j.erase("tokens");
    j.erase("lengths");
    j.erase("cut");
    j["images"] = {{"readable", f.images->images},     {"grey", f.images->grey},
                   {"sizes", f.images->sizes},         {"smallest", size(f.images->smallest)},
                   {"median", size(f.images->median)}, {"largest", size(f.images->largest)}};
    if (!f.images->nearest.empty())
      j["images"]["image_sizes"] = std::map(f.images->nearest.begin(), f.images->nearest.end());
  }
  if (!inputs.empty()) all["inputs"] = inputs;
  Json first = Json::array();
  for (const DataProblem& p : first_problems) first.push_back({{"where", p.where}, {"what", p.what}});
  all["first_problems"] = first;
  return all.dump(-1, ' ', false, Json::error_handler_t::replace);
}

static std::string sizes_line(const ImageSizes& s) {
  const auto size = [](const std::pair<int64_t, int64_t>& p) { return cat(p.first, " x ", p.second); };
  return cat("  images: ", with_thousands(s.images), " readable, ", with_thousands(s.grey), " gray; ", s.sizes,
             s.sizes == 1 ? " size: " : " sizes: ", size(s.smallest),
             s.sizes == 1 ? std::string() : cat(" to ", size(s.largest), ", half up to ", size(s.median)));
}

std::vector<std::string> DataReport::lines() const {
  std::vector<std::string> out = {cat("task: ", task)};
  for (const FileReport& f : files) {
    out.push_back(cat(printable(f.name), ": ", with_thousands(f.rows), " rows, ", f.duplicates,
                      f.images            ? " repeat an image"
                      : f.columns.empty() ? " repeat a text"
                                          : " repeat a row"));
    for (const ColumnReport& c : f.columns) out.push_back(column_line(c));
    size_t shown = 0;
    for (const auto& [label, n] : f.labels) {
      if (++shown > kReportedProblems) break;
      out.push_back(cat("  label ", printable(label), ": ", with_thousands(n)));
    }
    if (f.labels.size() > kReportedProblems)
      out.push_back(cat("  ... and ", f.labels.size() - kReportedProblems, " labels more"));
    if (f.images) out.push_back(sizes_line(*f.images));
    if (f.images) {
      for (const auto& [size, images] : f.images->nearest)
        out.push_back(cat("  nearest to ", size, " (height x width): ", with_thousands(images)));
    }
    if (f.longest == 0) continue;
    out.push_back(cat("  tokens: ", f.shortest, " to ", f.longest, ", half have ", f.median,
                      " or less; `max_seq_len` cuts ", with_thousands(f.cut), " rows"));
    for (const auto& [to, rows] : f.lengths) {
      const auto bar = static_cast<size_t>(
          40.0 * static_cast<double>(rows) / static_cast<double>(std::max<int64_t>(1, f.rows)) + 0.5);
      out.push_back(cat("  up to ", to, ": ", with_thousands(rows), " ", std::string(bar, '#')));
    }
  }
  if (files.size() > 1)
    out.push_back(cat("validation rows whose ",
                      files[0].images            ? "image"
                      : files[0].columns.empty() ? "text"
                                                 : "row",
                      " is in the training data: ", with_thousands(in_both)));
  out.insert(out.end(), inputs.begin(), inputs.end());
  out.push_back(cat("problems: ", with_thousands(problems)));
  for (const DataProblem& p : first_problems)
    out.push_back(cat("  ", printable(p.where), ": ", printable_lines(p.what)));
  return out;
}

}  // namespace amp
