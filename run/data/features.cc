// Tables of features: columns are named by settings, recorded in a trained model, or guessed (data/features/guess.h).
// Categories, fill values and scales are fitted only on rows that train. learn_features() must therefore choose its
// rows as limited() and split_validation() (limits.h) do. Code 0 of a category means unknown or missing.

#include "run/data/features.h"

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <set>

#include "base/fs.h"
#include "base/setting_name.h"
#include "base/text.h"
#include "data/features/decimal.h"
#include "data/features/forms.h"
#include "data/features/guess.h"
#include "data/labels.h"
#include "data/subset.h"
#include "graph/bind.h"
#include "run/data/bad_rows.h"
#include "run/data/data_kind.h"
#include "run/data/limits.h"
#include "run/data/text_rows.h"
#include "run/settings/asked_objective.h"
#include "run/spec/spec.h"
#include "trainer/tasks/task_rule.h"

namespace amp {

namespace {

std::vector<Join> joins_of(const TableSpec& tables) {
  std::vector<Join> out;
  for (const std::string& text : *tables.join) out.push_back(parse_join(text));
  return out;
}

FeatureSchema schema_of(const DataSpec& data) {
  return {*data.tables.categorical,
          *data.tables.continuous,
          *data.tables.date,
          joins_of(data.tables),
          target_column(data),
          filling_names().value_of(data.tables.fill_missing),
          scaling_names().value_of(data.tables.feature_scaling),
          target_names().value_of(*data.tables.target_transform)};
}

// Returns the files to join for a trained model: those of `join`, else files of the recorded names in the table's
// folder.
std::vector<Join> fitted_joins(const TableSpec& tables, const std::string& path, const Features& fitted) {
  if (!tables.join->empty()) return joins_of(tables);
  std::vector<Join> out = fitted.joins;
  for (Join& join : out) {
    const std::string beside = (std::filesystem::path(path).parent_path() / join.file).string();
    if (!path_exists(beside))
      fail(Exit::usage, "E_JOIN_FILE",
           cat("the model was trained with '", printable(join.file), "' joined to its table, and '", printable(beside),
               "' is not there"),
           "name it with `join` FILE:KEY");
    join.file = beside;
  }
  return out;
}

FeatureLabels labels_of(const FeatureTable& table, const Features& features, const DataNeeds& needs) {
  if (!needs.labeled) return {};
  if (task_rule(needs.task).has_numbers())
    return {target_numbers(table, features.target, features.target_transform), {}, {}};
  return {{}, class_ids(table.table(), features.target, needs.classes), needs.classes.names};
}

void check_codes(const Features& features, const SourceGraph& g, const std::vector<FeatureInput>& inputs) {
  for (const FeatureInput& f : inputs) {
    const int v = g.find(f.input.name);
    if (v < 0 || f.label) continue;
    const std::vector<int64_t> rows = looked_up_rows(g, v, static_cast<int64_t>(f.features.size()));
    for (size_t c = 0; c < f.features.size(); ++c) {
      if (f.features[c].kind != FeatureRef::Kind::code || rows[c] == 0) continue;
      const CategoryMap& map = features.categories[f.features[c].index];
      if (map.codes() <= rows[c]) continue;
      fail(Exit::data, "E_CATEGORIES",
           cat("column '", printable(map.column), "' has ", with_thousands(map.codes() - 1), " categories, ",
               with_thousands(map.codes()),
               " codes with 0 for unknown; the table that the model looks them up in (input '", printable(f.input.name),
               "', column ", c, ") has ", with_thousands(rows[c]), " rows"),
           "is it the column's place? the order of `categorical` is that of the input; else export the model with a "
           "larger table");
    }
  }
}

std::string create_command(const Features& features, const DataNeeds& needs) {
  const char* const architecture = features.categories.empty() ? "mlp" : "tabular";
  return cat("`create ", architecture, " --model_config '", fitting_config(architecture, features, needs),
             "' --out new.onnx`");
}

void note_inputs(const Features& features, const std::vector<FeatureInput>& inputs, const Log& log) {
  int64_t filled = 0;
  for (const NumberMap& n : features.numbers) filled += n.missing;
  std::string target;
  if (features.target_transform.form != TargetForm::plain)
    target = cat("; target ", features.target, " as ", target_names().name_of(features.target_transform.form),
                 ", reported in its own units");
  log.info(
      cat("features: ", features.categories.size(), " categorical (code 0: unknown or missing), ",
          features.numbers.size(), " continuous",
          filled ? cat(", ", filled, " with missing numbers, ", features.indicators(), " indicators") : std::string(),
          target));
  for (const FeatureInput& f : inputs) log.info(cat("features: ", describe(features, f)));
}

// Requires that the named columns exist, and that each has only one role: target, categorical or continuous.
void check_columns(const DataSpec& data, const FeatureTable& table) {
  const std::string target = target_column(data);
  table.require(target);
  std::set<std::string> seen;
  for (const auto* list : {&*data.tables.categorical, &*data.tables.continuous}) {
    for (const std::string& name : *list) {
      table.require(name);
      if (name == target)
        fail(Exit::usage, "E_USAGE", cat("the target '", printable(name), "' is named among the features too"),
             "take it out of `categorical` and `continuous`");
      if (!seen.insert(name).second)
        fail(Exit::usage, "E_USAGE", cat("the column '", printable(name), "' is named twice"),
             "a column is categorical or continuous");
    }
  }
}

}  // namespace

bool names_features(const TableSpec& tables) {
  return !tables.categorical->empty() || !tables.continuous->empty() || !tables.date->empty() ||
         !tables.target->empty();
}

std::string target_column(const DataSpec& data) {
  return data.tables.target->empty() ? *data.label_column : *data.tables.target;
}

std::vector<std::string> join_files(const TableSpec& tables) {
  std::vector<std::string> out;
  for (const Join& join : joins_of(tables)) out.push_back(join.file);
  return out;
}

TableSpec with_absolute_joins(TableSpec tables) {
  std::vector<std::string> texts = *tables.join;
  for (std::string& text : texts) {
    const size_t file = parse_join(text).file.size();
    text = std::filesystem::absolute(text.substr(0, file)).string() + text.substr(file);
  }
  if (tables.join.asked()) tables.join = texts;
  return tables;
}

// Returns the columns whose decimal marks are read: the continuous columns or, if the settings name none, all columns
// except the target.
static std::vector<std::string> number_columns(const RunSpec& spec, const Features* fitted, const Table& table) {
  const bool number_target = !task_rule(requested_task(spec.objective)).has_classes();
  std::vector<std::string> out = *spec.data.tables.continuous;
  if (fitted) {
    for (const NumberMap& n : fitted->numbers) out.push_back(n.column);
  } else if (out.empty() && spec.data.tables.categorical->empty()) {
    out = table.columns();
    std::erase(out, target_column(spec.data));
  }
  if (number_target) out.push_back(target_column(spec.data));
  return out;
}

FeatureTable read_feature_table(const RunSpec& spec, const std::string& path, const Features* fitted, const Log& log) {
  Table own = read_table(spec, path);
  read_decimal_marks(own, decimal_mark(spec.data.decimal), number_columns(spec, fitted, own));
  for (const std::string& note : own.notes()) log.note(note);
  FeatureTable table(std::move(own));
  for (const Join& join : fitted ? fitted_joins(spec.data.tables, path, *fitted) : joins_of(spec.data.tables)) {
    TableOptions options;
    Table other = Table::read(join.file, options);
    read_decimal_marks(other, decimal_mark(spec.data.decimal), number_columns(spec, fitted, other));
    for (const std::string& note : other.notes()) log.note(note);
    const int64_t without = table.join(join, std::move(other));
    if (without)
      log.note(cat(with_thousands(without), " of ", with_thousands(table.rows()), " rows of '", printable(path),
                   "' have no match in '", printable(join.file), "': what it holds is missing there"));
  }
  for (const std::string& date : fitted ? fitted->dates : *spec.data.tables.date) table.add_parts(date);
  return table;
}

RunSpec with_columns(RunSpec spec, FeatureTable& table, const Log& log) {
  table.require(target_column(spec.data));
  if (!spec.data.tables.categorical->empty() || !spec.data.tables.continuous->empty()) {
    check_columns(spec.data, table);
    return spec;
  }
  const Guess guess =
      guess_features(table, target_column(spec.data), *spec.data.tables.date, joins_of(spec.data.tables));
  if (guess.categorical.empty() && guess.continuous.empty())
    fail(Exit::data, "E_DATA_COLUMN", cat(table.table().name(), ":1: no column can be recognized as a feature"),
         "name them with `categorical` and `continuous`");
  spec.data.tables.categorical.suggest(guess.categorical);
  spec.data.tables.continuous.suggest(guess.continuous);
  if (spec.data.tables.date->empty()) spec.data.tables.date.suggest(guess.dates);
  std::vector<std::string> left;
  for (const auto& [name, why] : guess.left_out) left.push_back(cat(printable(name), " (", why, ")"));
  const auto flag = [](const char* name, const std::vector<std::string>& columns) {
    std::vector<std::string> shown;
    for (const std::string& c : columns) shown.push_back(printable(c));
    return shown.empty() ? std::string() : cat(" ", setting_name(name), " ", join(shown, ","));
  };
  log.info(cat("features, guessed from the contents of the columns (name them to overrule it):",
               flag("categorical", guess.categorical), flag("continuous", guess.continuous), flag("date", guess.dates),
               left.empty() ? "" : "; left out: ", join(left, ", ")));
  return spec;
}

Task feature_task(const DataSpec& data, const FeatureTable& table) {
  if (*data.tables.target_transform != "none") return Task::regression;
  return is_number_target(table, target_column(data)) ? Task::regression : Task::classification;
}

RunSpec with_fed_columns(RunSpec spec, const SourceGraph& g, const std::string& path) {
  const DataKind kind = data_kind(spec.data, path);
  const bool named = !spec.data.text.text_columns->empty() || !spec.data.tables.categorical->empty() ||
                     !spec.data.tables.continuous->empty();
  if (named || (kind != DataKind::text && kind != DataKind::features)) return spec;
  const std::vector<int> inputs = needed_inputs(g, g.outputs);
  if (inputs.size() != 1) return spec;
  const SourceValue& input = g.value(inputs[0]);
  if (!is_float(input.dtype) || !input.rank_known || input.dims.size() != 2) return spec;
  const std::string target = target_column(spec.data);
  std::vector<std::string> columns = read_table(spec, path).columns();
  std::erase(columns, target);
  const int64_t width = input.dims[1].value;
  if (width < 0 || width == std::ssize(columns)) {
    spec.data.tables.continuous.suggest(columns);
  } else if (kind == DataKind::features) {
    fail(Exit::data, "E_FEATURE_WIDTH",
         cat("the model's input '", printable(input.name), "' takes ", width, " numbers a row, '", printable(path),
             "' has ", columns.size(), " columns beside the target '", printable(target), "'"),
         "name those that the model takes, in its order, with `continuous`");
  }
  return spec;
}

std::vector<std::string> feature_labels(const DataSpec& data, const FeatureTable& table, Task task) {
  if (!task_rule(task).tables)
    fail(Exit::usage, "E_TASK", cat("`task` ", name_of(task), " has no labels that a table's column could hold"),
         cat("tables are for ", task_names(&TaskRule::tables)));
  if (!task_rule(task).has_numbers() && *data.tables.target_transform != "none")
    fail(Exit::usage, "E_USAGE",
         cat("`target_transform` ", *data.tables.target_transform, " is for numbers, the task is ", name_of(task)),
         "leave one of them out");
  if (task_rule(task).has_numbers()) return {};
  return find_classes(table.table(), target_column(data));
}

FeatureTable read_training_table(RunSpec& spec, Task& task, const Log& log) {
  FeatureTable table = read_feature_table(spec, spec.data.train, nullptr, log);
  spec = with_columns(spec, table, log);
  if (task == Task::none) task = feature_task(spec.data, table);
  skip_bad_features(spec, task, nullptr, *spec.data.labels, true, table);
  return table;
}

std::string fitting_config(const std::string& architecture, const Features& features, const DataNeeds& needs) {
  std::vector<std::string> sizes;
  for (const CategoryMap& c : features.categories) sizes.push_back(std::to_string(c.codes()));
  size_t numbers = features.numbers.size();
  for (const NumberMap& n : features.numbers) numbers += n.missing;
  const TaskRule& rule = task_rule(needs.task);
  const int64_t outputs = rule.has_numbers() ? 1 : rule.outputs_for(static_cast<int64_t>(needs.classes.size()));
  return cat("{",
             architecture == "mlp" ? cat("\"inputs\": ", sizes.size() + numbers)
                                   : cat("\"categories\": [", join(sizes, ", "), "], \"continuous\": ", numbers),
             ", \"outputs\": ", outputs, "}");
}

Features fit_training_rows(const RunSpec& spec, const FeatureTable& table, const DataNeeds& needs) {
  const FeatureSchema schema = schema_of(spec.data);
  Features target;  // has only the target's name: limit and split are stratified by the target's labels
  target.target = schema.target;
  const std::unique_ptr<Dataset> all =
      limited(make_label_dataset(table, labels_of(table, target, needs)), spec.data.limit_train, spec);
  std::vector<int64_t> rows(static_cast<size_t>(all->size()));
  std::iota(rows.begin(), rows.end(), int64_t{0});
  if (*spec.data.val_split > 0)
    rows = split_samples(*all, *spec.data.val_split, static_cast<uint64_t>(spec.device.seed)).train;
  rows = all->batch(rows).samples;  // rows of the table: a limit keeps sampled rows, not the first ones
  return fit_features(table, schema, rows, task_rule(needs.task).has_numbers());
}

std::shared_ptr<const Features> learn_features(const RunSpec& spec, const FeatureTable& table, const SourceGraph& graph,
                                               const DataNeeds& needs, const Log& log) {
  Features out = fit_training_rows(spec, table, needs);
  try {
    const std::vector<FeatureInput> inputs = assign_features(out, input_specs(graph, needs), true);
    check_codes(out, graph, inputs);
    note_inputs(out, inputs, log);
  } catch (const Error& e) {
    fail(e.exit(), e.id(), e.fact(), cat(e.hint(), "; a new model for these columns: ", create_command(out, needs)));
  }
  return std::make_shared<const Features>(std::move(out));
}

void require_outputs(const SourceGraph& g, const Losses& losses, const std::vector<std::string>& classes) {
  for (const LossSpec& s : losses.parts) {
    const SourceValue& v = g.values[static_cast<size_t>(g.find(s.values().front()))];
    const bool one = v.rank_known && v.dims.size() == 2 && v.dims[1].value == 1;
    if (!one || classes.empty() || !s.kind.starts_with("cross_entropy")) continue;
    fail(Exit::usage, "E_NUM_LABELS",
         cat("the target has ", classes.size(), " classes, the model's output '", printable(v.name), "' is one number"),
         classes.size() == 2
             ? "`loss` bce_logits takes it as yes or no; `task` regression as a number"
             : cat("`num_labels` ", classes.size(), " gives it as many; `task` regression takes a number"));
  }
}

std::unique_ptr<Dataset> open_feature_dataset(const FeatureTable& table, const SourceGraph& graph,
                                              const DataNeeds& needs) {
  Features features = *needs.features;
  const std::vector<FeatureInput> inputs = assign_features(features, input_specs(graph, needs), false);
  check_codes(features, graph, inputs);
  for (const CategoryMap& c : features.categories) table.require(c.column);
  for (const NumberMap& n : features.numbers) table.require(n.column);
  if (needs.labeled) table.require(features.target);
  const FeatureValues values = feature_values(table, features);
  for (const FeatureValues::Unknown& u : values.unknown) {
    // In training, only rows that are held out or that `limit_train` drops can have unknown categories.
    // No note is needed.
    if (needs.training) break;
    needs.log.note(cat(u.where, ": column '", printable(u.column), "' holds '", printable(u.example),
                       "', which the training data lack: ", with_thousands(u.rows), u.rows == 1 ? " row" : " rows",
                       " of unknown categories (code 0)"));
  }
  if (needs.log_matches && task_rule(needs.task).has_classes())
    log_matches(distinct_labels(table.table(), features.target), table.table().name(), needs.classes, needs.log);
  return make_feature_dataset(table, features, values, inputs, labels_of(table, features, needs));
}

}  // namespace amp
