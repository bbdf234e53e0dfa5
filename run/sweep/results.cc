// Reads run.json and eval.jsonl of a sweep's runs. The tables do not depend on the time or the machine: a sweep that
// was killed and continued has the same tables as an uninterrupted one.
#include "run/sweep/results.h"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <numeric>
#include <sstream>
#include <tuple>

#include "base/file.h"
#include "base/fs.h"
#include "base/json_nesting.h"
#include "base/text.h"
#include "run/data/delimited.h"
#include "run/report/jsonl_reader.h"
#include "trainer/tasks/task.h"

namespace amp {
namespace {

using nlohmann::json;
using State = SweepRun::State;

double number_in(const json& object, const std::string& name) {
  const auto found = object.is_object() ? object.find(name) : object.end();
  return object.is_object() && found != object.end() && found->is_number() ? found->get<double>() : std::nan("");
}

json member(const json& object, const char* name) { return object.is_object() ? object.value(name, json()) : json(); }

std::string rounded(double value) {
  if (!std::isfinite(value)) return "-";
  std::ostringstream out;
  out << std::setprecision(5) << value;
  return out.str();
}

// Formats a number with full precision, as in the run's files; "" if it is not finite.
std::string exact(double value) { return std::isfinite(value) ? json(value).dump() : ""; }

SweepResult result_of(const SweepRun& run, const RunProgress& progress, const std::vector<std::string>& metrics) {
  SweepResult out{&run, 0, std::vector<double>(metrics.size(), std::nan(""))};
  json values;
  if (run.state == State::finished) {
    values = progress.end;
    out.steps = progress.steps;
  } else if (run.state == State::pruned) {
    out.steps = run.pruned_at;
    for (const json& line : progress.evaluations) {
      if (number_in(line, "step") == static_cast<double>(run.pruned_at)) values = line;
    }
  }
  for (size_t i = 0; i < metrics.size(); ++i) out.values[i] = number_in(values, metrics[i]);
  return out;
}

std::string right(const std::string& text, size_t width) { return std::string(width - text.size(), ' ') + text; }

}  // namespace

MetricCurve RunProgress::curve() const {
  MetricCurve out;
  for (const json& line : evaluations) {
    const double step = number_in(line, "step");
    if (std::isfinite(step)) out.emplace_back(static_cast<int64_t>(step), number_in(line, metric));
  }
  return out;
}

bool RunProgress::lower_is_better() const { return amp::lower_is_better(metric); }

RunProgress read_progress(const std::string& folder) {
  RunProgress out;
  const std::string path = folder + "/run.json";
  if (!path_exists(path)) return out;
  const json run = parse_json(read_file(path).text());
  if (!run.is_object()) return out;
  if (const json metric = member(run, "best_metric"); metric.is_string()) out.metric = metric.get<std::string>();
  const json steps = member(run, "steps");
  out.planned = static_cast<int64_t>(std::max(0.0, number_in(steps, "planned")));
  out.steps = static_cast<int64_t>(std::max(0.0, number_in(steps, "attempted")));
  out.finished = member(run, "finished") == json(true);
  out.end = member(run, "final_metrics");
  if (!out.metric.empty()) out.metrics.push_back(out.metric);
  for (const json& name : member(run, "told_metrics")) {
    if (name.is_string() && name.get<std::string>() != out.metric) out.metrics.push_back(name.get<std::string>());
  }
  JsonlReader(folder + "/eval.jsonl").read([] {}, [&](const json& line) { out.evaluations.push_back(line); });
  return out;
}

SweepTable sweep_table(const std::vector<SweepRun>& runs) {
  SweepTable table;
  std::vector<RunProgress> progress;
  for (const SweepRun& run : runs) {
    progress.push_back(read_progress(run.folder));
    if (run.state != State::finished) continue;
    for (const std::string& name : progress.back().metrics) {
      if (std::find(table.metrics.begin(), table.metrics.end(), name) == table.metrics.end())
        table.metrics.push_back(name);
    }
  }
  double best = HUGE_VAL;
  for (size_t i = 0; i < runs.size(); ++i) {
    table.rows.push_back(result_of(runs[i], progress[i], table.metrics));
    if (runs[i].state != State::finished || table.metrics.empty()) continue;
    const double value = table.rows.back().values[0] * (lower_is_better(table.metrics[0]) ? 1 : -1);
    if (!(value < best)) continue;
    best = value;
    table.best = static_cast<int>(i);
  }
  return table;
}

std::string state_text(const SweepRun& run) {
  switch (run.state) {
    case State::waiting:
      return "waiting";
    case State::running:
      return "running";
    case State::finished:
      return "finished";
    case State::pruned:
      return cat("pruned at step ", run.pruned_at);
    case State::failed:
      return cat("failed (exit ", run.exit_code, ")");
    case State::stopped:
      return "stopped";
  }
  bug("state of a run");
}

std::string sweep_csv(const SweepTable& table) {
  std::vector<std::string> head{"run", "state", "best"};
  if (!table.rows.empty()) {
    for (const auto& [setting, texts] : table.rows[0].run->trial.values) head.emplace_back(setting->name);
  }
  head.emplace_back("steps");
  head.insert(head.end(), table.metrics.begin(), table.metrics.end());
  std::string out = delimited(head, ',') + "\n";
  for (size_t i = 0; i < table.rows.size(); ++i) {
    const SweepResult& row = table.rows[i];
    std::vector<std::string> cells{row.run->trial.name, state_text(*row.run),
                                   static_cast<int>(i) == table.best ? "1" : "0"};
    for (const auto& [setting, texts] : row.run->trial.values) cells.push_back(join(texts, ","));
    cells.push_back(row.steps > 0 ? std::to_string(row.steps) : "");
    for (const double v : row.values) cells.push_back(exact(v));
    out += delimited(cells, ',') + "\n";
  }
  return out;
}

std::string sweep_text(const SweepTable& table) {
  std::vector<size_t> order(table.rows.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const double sign = !table.metrics.empty() && lower_is_better(table.metrics[0]) ? 1 : -1;
  const auto key = [&](size_t i) {
    const SweepResult& row = table.rows[i];
    const bool valued = !row.values.empty() && std::isfinite(row.values[0]);
    const int group = row.run->state == State::finished ? 0 : row.run->state == State::pruned ? 1 : 2;
    return std::tuple(group, group == 1 ? -row.steps : 0, valued ? sign * row.values[0] : HUGE_VAL);
  };
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return key(a) < key(b); });
  std::vector<std::vector<std::string>> rows{{"", "run", "state", "steps"}};
  rows[0].insert(rows[0].end(), table.metrics.begin(), table.metrics.end());
  for (const size_t i : order) {
    const SweepResult& row = table.rows[i];
    std::vector<std::string> cells{static_cast<int>(i) == table.best ? "*" : "", row.run->trial.name,
                                   state_text(*row.run), row.steps > 0 ? std::to_string(row.steps) : "-"};
    for (const double v : row.values) cells.push_back(rounded(v));
    rows.push_back(std::move(cells));
  }
  std::string out;
  std::vector<size_t> widths(rows[0].size());
  for (const auto& row : rows) {
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  }
  for (const auto& row : rows) {
    std::string line;
    for (size_t c = 0; c < row.size(); ++c) {
      const std::string left = row[c] + std::string(widths[c] - row[c].size(), ' ');
      line += (c == 0 ? "" : "  ") + (c < 3 ? left : right(row[c], widths[c]));
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

}  // namespace amp
