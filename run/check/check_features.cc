// `check_data` for tables of features. Counts missing values, categories that only validation rows have, and
// duplicates. A row is identified by a 64-bit hash of its features, so that rows with equal hashes count as duplicates.
// If the training table has no problems, the features are also fitted and assigned to the model's inputs.

#include "run/check/check_features.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <unordered_set>

#include "base/text.h"
#include "data/features/forms.h"
#include "importer/surgery/edit.h"
#include "run/data/features.h"
#include "run/model/table_model.h"
#include "run/prepare/common.h"
#include "run/prepare/objective.h"
#include "run/settings/asked_objective.h"
#include "run/spec/spec.h"
#include "trainer/tasks/task_rule.h"

namespace amp {

namespace {

class FeatureChecker {
 public:
  FeatureChecker(DataReport& report, Task task) : report_(report), task_(task) {}

  void file(const DataSpec& data, const FeatureTable& table, const std::string& name, bool training) {
    report_.files.emplace_back();
    FileReport& f = report_.files.back();
    f.name = name;
    f.rows = table.rows();
    rows_.assign(static_cast<size_t>(f.rows), 0);
    for (const std::string& c : *data.tables.categorical) category(table, c, training, f);
    for (const std::string& c : *data.tables.continuous) number(table, c, f);
    target(data, table, training, f);
    for (const size_t hash : rows_) {
      const bool fresh = (training ? training_ : validation_).insert(hash).second;
      f.duplicates += !fresh;
      report_.in_both += !training && training_.count(hash);
    }
  }

 private:
  // Adds a cell to the row's hash, by which duplicates are found.
  void mix(size_t row, std::string_view text) {
    rows_[row] = rows_[row] * 0x9e3779b97f4a7c15 + std::hash<std::string_view>()(text) + 1;
  }

  void category(const FeatureTable& table, const std::string& name, bool training, FileReport& f) {
    ColumnReport out{name, "categorical"};
    const FeatureColumn column = table.column(name);
    std::set<std::string, std::less<>>& known = known_[name];
    std::unordered_set<std::string_view> seen;
    for (size_t r = 0; r < column.texts.size(); ++r) {
      const std::string_view text = column.texts[r];
      mix(r, text);
      out.missing += text.empty();
      if (text.empty()) continue;
      seen.insert(text);
      out.unknown += !training && known.find(text) == known.end();
    }
    if (training) known.insert(seen.begin(), seen.end());
    out.values = static_cast<int64_t>(seen.size());
    f.columns.push_back(std::move(out));
  }

  ColumnReport numbers(const FeatureTable& table, const std::string& name, const char* kind) {
    ColumnReport out{name, kind};
    const FeatureColumn column = table.column(name);
    int64_t present = 0;
    double sum = 0;
    for (size_t r = 0; r < column.texts.size(); ++r) {
      mix(r, column.texts[r]);
      const std::optional<double> x = read_number(column.texts[r]);
      out.missing += column.texts[r].empty();
      if (!x && !column.texts[r].empty())
        report_.problem(table.where(static_cast<int64_t>(r), name),
                        cat("'", printable(column.texts[r]), "' in column '", printable(name), "' is no number"));
      if (!x) continue;
      out.low = present ? std::min(out.low, *x) : *x;
      out.high = present ? std::max(out.high, *x) : *x;
      sum += *x;
      ++present;
    }
    if (present) out.mean = sum / static_cast<double>(present);
    out.values = present;
    return out;
  }

  void number(const FeatureTable& table, const std::string& name, FileReport& f) {
    f.columns.push_back(numbers(table, name, "continuous"));
  }

  void target(const DataSpec& data, const FeatureTable& table, bool training, FileReport& f) {
    const std::string name = target_column(data);
    if (!table.has(name)) return report_.problem(f.name, cat("there is no target column '", printable(name), "'"));
    const FeatureColumn column = table.column(name);
    const TargetTransform transform{target_names().value_of(*data.tables.target_transform)};
    const TaskRule& rule = task_rule(task_);
    for (size_t r = 0; r < column.texts.size(); ++r) {
      const std::string where = table.where(static_cast<int64_t>(r), name);
      if (column.texts[r].empty()) {
        report_.problem(where, "there is no target");
        continue;
      }
      const std::optional<double> y = read_number(column.texts[r]);
      if (rule.has_numbers() && y && !transform.takes(*y))
        report_.problem(where,
                        cat("the target ", column.texts[r], " is none that ", *data.tables.target_transform, " takes"));
      if (!rule.has_classes()) continue;
      const std::string label(column.texts[r]);
      ++f.labels[label];
      if (!training && !labels_.empty() && !labels_.count(label))
        report_.problem(where, cat("the label '", printable(label), "' is not in the training data"));
    }
    if (training) labels_ = f.labels;
    if (rule.has_numbers()) f.columns.push_back(numbers(table, name, "target"));
  }

  DataReport& report_;
  Task task_;
  std::vector<size_t> rows_;  // hashes of the current file's rows
  std::unordered_set<size_t> training_, validation_;
  std::map<std::string, std::set<std::string, std::less<>>> known_;
  std::map<std::string, int64_t> labels_;
};

// Reports how the columns feed the model's inputs. Fits the features on all rows.
void look_at_model(const RunSpec& spec, const FeatureTable& table, Task task, DataReport& report) {
  DataNeeds needs;
  needs.task = task;
  needs.classes = feature_labels(spec.data, table, task);
  RunSpec all = spec;
  all.data.val_split = 0;
  if (wants_table_model(spec)) {
    report.inputs.push_back(cat("configuration of ", spec.model.model, ": ",
                                fitting_config(spec.model.model, fit_training_rows(all, table, needs), needs)));
    return;
  }
  const Imported model = open_model(spec, Job::train, Log());
  needs.inputs = needed_inputs(model.graph, model.graph.outputs);
  const Log lines([&](Level, const std::string& text) { report.inputs.push_back(text); });
  learn_features(all, table, model.graph, needs, lines);
}

}  // namespace

DataReport check_features(const RunSpec& given, const Log& log) {
  DataReport report;
  const auto told = [&](const std::string& place, auto&& f) {
    try {
      f();
      return true;
    } catch (const Error& e) {
      if (e.exit() != Exit::data) throw;
      report.problem(place, place == given.model.model ? cat(e.fact(), ": ", e.hint()) : e.fact());
      return false;
    }
  };
  RunSpec spec = given;
  std::optional<FeatureTable> train;
  Task task = requested_task(spec.objective);
  const bool read = told(spec.data.train, [&] {
    train.emplace(read_feature_table(spec, spec.data.train, nullptr, log));
    spec = with_columns(spec, *train, log);
    if (task == Task::none) task = feature_task(spec.data, *train);
  });
  report.task = name_of(task);
  if (!read) return report;
  FeatureChecker checker(report, task);
  told(spec.data.train, [&] { checker.file(spec.data, *train, spec.data.train, true); });
  if (report.problems == 0) told(spec.model.model, [&] { look_at_model(spec, *train, task, report); });
  if (!report.files.empty() && task_rule(task).has_classes()) report.check_spelling(report.files.front());
  train.reset();
  if (!spec.data.val.empty())
    told(spec.data.val,
         [&] { checker.file(spec.data, read_feature_table(spec, spec.data.val, nullptr, log), spec.data.val, false); });
  return report;
}

}  // namespace amp
