// report_table() of report_page.h: reads run.json of each run and aligns time, memory and metrics as text.
#include <algorithm>
#include <filesystem>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string_view>

#include "base/text.h"
#include "run/report/report_page.h"
#include "trainer/tasks/task.h"

namespace amp {
namespace {

using nlohmann::json;
using TableRow = std::vector<std::string>;

std::string number(const json& v, int digits) {
  if (!v.is_number()) return "-";
  std::ostringstream out;
  out << std::setprecision(digits) << v.get<double>();
  return out.str();
}

// Returns the member that a path of names leads to in nested objects; null if there is none. The names may come from a
// file.
const json& at(const json& from, std::initializer_list<std::string_view> names) {
  static const json missing;
  const json* found = &from;
  for (const std::string_view name : names) {
    const auto member = found->is_object() ? found->find(name) : found->end();
    if (member == found->end()) return missing;
    found = &*member;
  }
  return *found;
}

// Formats a value as "92.1 s". The lines of runs after the first also show the ratio to the first run's value: "62.3 s
// (0.68)".
std::string beside_first(const json& value, const json& first, double unit, const std::string& name) {
  if (!value.is_number()) return "-";
  std::ostringstream out;
  const double v = value.get<double>();
  out << std::fixed << std::setprecision(v / unit < 100 ? 1 : 0) << v / unit << ' ' << name;
  if (&value != &first && first.is_number() && first.get<double>() > 0)
    out << " (" << std::setprecision(2) << v / first.get<double>() << ')';
  return out.str();
}

// Returns the folders' names without their common parent folders.
std::vector<std::string> short_names(const std::vector<std::string>& folders) {
  std::vector<std::string> names;
  for (const std::string& f : folders) {
    std::filesystem::path p = std::filesystem::path(f).lexically_normal();
    names.push_back((p.has_filename() ? p : p.parent_path()).string());
  }
  const std::string& first = names.front();
  size_t common = 0;
  for (size_t i = 0; names.size() > 1 && i < first.size(); ++i) {
    if (!std::all_of(names.begin(), names.end(),
                     [&](const std::string& n) { return n.compare(0, i, first, 0, i) == 0; }))
      break;
    if (i > 0 && first[i - 1] == '/') common = i;
  }
  for (std::string& n : names) n.erase(0, common);
  return names;
}

// Marks the best of the numbers in a column with "*", unless all are equal. Cells of other runs get a space.
void mark_best(std::vector<TableRow>& rows, size_t column, const std::vector<json>& values, bool lower_is_better) {
  std::vector<double> known;
  for (const json& v : values) {
    if (v.is_number()) known.push_back(v.get<double>());
  }
  if (known.empty()) return;
  const auto [low, high] = std::minmax_element(known.begin(), known.end());
  if (*low == *high) return;
  const double best = lower_is_better ? *low : *high;
  for (size_t i = 0; i < rows.size(); ++i) {
    const bool marked = i > 0 && values[i - 1].is_number() && values[i - 1].get<double>() == best;
    rows[i][column] += marked ? "*" : " ";
  }
}

// Returns the names of the settings in which the runs differ; empty if they are too many for a line.
std::vector<std::string> differing_settings(const std::vector<json>& runs) {
  constexpr size_t kMost = 6;
  std::set<std::string> names;
  for (const json& run : runs) {
    for (const auto& [name, value] : at(run, {"config"}).items()) names.insert(name);
  }
  std::vector<std::string> out;
  for (const std::string& name : names) {
    const json& first = at(runs[0], {"config", name});
    const auto same = [&](const json& run) { return at(run, {"config", name}) == first; };
    const auto derived = [&](const json& run) { return at(run, {"sources", name}) == json("derived"); };
    if (name == "output_dir" || std::all_of(runs.begin(), runs.end(), derived)) continue;
    if (!std::all_of(runs.begin(), runs.end(), same)) out.push_back(name);
  }
  return out.size() > kMost ? std::vector<std::string>() : out;
}

std::string setting_text(const json& value) {
  if (value.is_null()) return "-";
  return printable(value.is_string() ? value.get<std::string>() : value.dump());
}

std::string aligned(const std::vector<TableRow>& rows) {
  std::string out;
  for (const TableRow& row : rows) {
    for (size_t c = 0; c < row.size(); ++c) {
      size_t width = 0;
      for (const TableRow& r : rows) width = std::max(width, r[c].size());
      const std::string room(width - row[c].size(), ' ');
      out += c == 0 ? row[c] + room : "  " + room + row[c];
    }
    out += '\n';
  }
  return out;
}

}  // namespace

std::string report_table(const std::vector<std::string>& run_folders) {
  std::vector<json> runs;
  for (const std::string& folder : run_folders) runs.push_back(run_record(folder));
  const std::vector<std::string> names = short_names(run_folders);
  std::vector<std::string> metrics;
  std::set<std::string> known;
  for (const json& run : runs) {
    for (const json& m : at(run, {"told_metrics"})) {
      if (m.is_string() && known.insert(m.get<std::string>()).second) metrics.push_back(m);
    }
  }
  const std::vector<std::string> differing = differing_settings(runs);
  std::vector<TableRow> rows{{"run"}};
  for (const std::string& name : differing) rows[0].push_back(printable(name));
  for (const char* name : {"computes in", "time", "peak memory", "skipped steps"}) rows[0].emplace_back(name);
  for (size_t i = 0; i < metrics.size(); ++i) {
    if (i == 0) rows[0].push_back(printable(metrics[i]) + " before");
    rows[0].push_back(printable(metrics[i]));
  }
  for (size_t i = 0; i < runs.size(); ++i) {
    const json& dtype = at(runs[i], {"precision", "dtype"});
    const bool device = runs[i].contains("device_memory");
    const auto memory = [&](const json& run) -> const json& {
      return device ? at(run, {"device_memory", "peak_memory_bytes"}) : at(run, {"peak_memory_bytes"});
    };
    TableRow row{names[i]};
    for (const std::string& name : differing) row.push_back(setting_text(at(runs[i], {"config", name})));
    row.push_back(setting_text(dtype));
    row.push_back(
        beside_first(at(runs[i], {"timing", "train_seconds"}), at(runs[0], {"timing", "train_seconds"}), 1, "s"));
    row.push_back(beside_first(memory(runs[i]), memory(runs[0]), 1 << 20, "MiB"));
    row.push_back(number(at(runs[i], {"steps", "skipped"}), 12));
    for (size_t m = 0; m < metrics.size(); ++m) {
      if (m == 0) row.push_back(number(at(runs[i], {"initial_metrics", metrics[m]}), 5));
      row.push_back(number(at(runs[i], {"final_metrics", metrics[m]}), 5));
    }
    rows.push_back(std::move(row));
  }
  for (size_t m = 0; m < metrics.size(); ++m) {
    std::vector<json> values;
    for (const json& run : runs) values.push_back(at(run, {"final_metrics", metrics[m]}));
    mark_best(rows, differing.size() + 6 + m, values, lower_is_better(metrics[m]));
  }
  return aligned(rows);
}

}  // namespace amp
