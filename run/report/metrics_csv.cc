// CSV of a run's metrics: merges metrics.jsonl and eval.jsonl by step. The columns of training come first in a fixed
// order, those of evaluation have the prefix eval_.
#include "run/report/metrics_csv.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/text.h"
#include "run/data/delimited.h"
#include "run/report/jsonl_reader.h"
#include "run/report/report_data.h"

namespace amp {
namespace {

using nlohmann::json;
using CsvRow = std::map<std::string, std::string>;  // key: column
constexpr const char* kFirst[] = {"epoch", "loss", "lr", "loss_scale", "grad_norm", "skipped"};

std::string cell(const json& value) {
  if (value.is_boolean()) return value == json(true) ? "1" : "0";
  return value.is_number() ? value.dump() : "";
}

void add(CsvRow& row, const std::string& prefix, const json& numbers) {
  for (const auto& [name, value] : numbers.items()) {
    const bool known = name == "step" || (!prefix.empty() && (name == "epoch" || name == "samples"));
    if (!known && value.is_primitive() && !value.is_string()) row[prefix + name] = cell(value);
  }
}

std::map<int64_t, CsvRow> rows_of(const std::string& folder) {
  const json run = run_record(folder);
  std::map<int64_t, CsvRow> rows;
  if (const auto before = run.find("initial_metrics"); before != run.end() && before->is_object())
    add(rows[0], "eval_", *before);
  const auto read = [&](const char* file, const std::string& prefix) {
    JsonlReader(folder + "/" + file)
        .read([] {},
              [&](const json& line) {
                const json step = line.value("step", json());
                if (step.is_number_integer()) add(rows[step.get<int64_t>()], prefix, line);
              });
  };
  read("metrics.jsonl", "");
  read("eval.jsonl", "eval_");
  return rows;
}

// Returns the columns: training first, then evaluation, each in a fixed order.
std::vector<std::string> columns_of(const std::vector<std::map<int64_t, CsvRow>>& runs) {
  std::set<std::string> names;
  for (const auto& run : runs) {
    for (const auto& [step, row] : run) {
      for (const auto& [name, value] : row) names.insert(name);
    }
  }
  std::vector<std::string> out;
  const auto take = [&](const std::string& name) {
    if (names.erase(name)) out.push_back(name);
  };
  for (const char* name : kFirst) take(name);
  const std::set<std::string> rest = names;
  for (const std::string& name : rest) {
    if (!name.starts_with("eval_")) take(name);
  }
  take("eval_loss");
  out.insert(out.end(), names.begin(), names.end());
  return out;
}

}  // namespace

std::string metrics_csv(const std::vector<std::string>& run_folders) {
  std::vector<std::map<int64_t, CsvRow>> runs;
  for (const std::string& folder : run_folders) runs.push_back(rows_of(folder));
  const std::vector<std::string> columns = columns_of(runs);
  const bool several = runs.size() > 1;
  std::vector<std::string> head = {"step"};
  if (several) head.insert(head.begin(), "run");
  head.insert(head.end(), columns.begin(), columns.end());
  std::string out = delimited(head, ',') + "\n";
  for (size_t r = 0; r < runs.size(); ++r) {
    for (const auto& [step, row] : runs[r]) {
      std::vector<std::string> cells = {std::to_string(step)};
      if (several) cells.insert(cells.begin(), run_folders[r]);
      for (const std::string& name : columns) {
        const auto found = row.find(name);
        cells.push_back(found == row.end() ? "" : found->second);
      }
      out += delimited(cells, ',') + "\n";
    }
  }
  return out;
}

}  // namespace amp
