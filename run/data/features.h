// Reads tables of features (docs/tables.md): chooses the columns, fits categories and scales, and feeds the model's
// inputs.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "data/features/feature_dataset.h"
#include "data/features/features.h"
#include "graph/source.h"
#include "run/data/data_needs.h"
#include "trainer/losses/losses.h"

namespace amp {

struct DataSpec;
struct RunSpec;
struct TableSpec;

bool names_features(const TableSpec& tables);     // true if `categorical`, `continuous`, `date` or `target` was given
std::string target_column(const DataSpec& data);  // returns `target`, else `label_column`

// Reads a table, joins the files of `join` to it and adds the parts of dates. `fitted`: the features that a trained
// model records, whose joins and dates are used. If it is null, those of the settings are used.
FeatureTable read_feature_table(const RunSpec& spec, const std::string& path, const Features* fitted, const Log& log);
std::vector<std::string> join_files(const TableSpec& tables);  // returns the files that `join` names
TableSpec with_absolute_joins(TableSpec tables);               // returns the settings with absolute paths in `join`

// Returns the settings with `categorical`, `continuous` and `date` chosen by the table's contents, if they name no
// columns; logs the choice. Throws an error if a named column is missing or named twice.
RunSpec with_columns(RunSpec spec, FeatureTable& table, const Log& log);

// Returns the task regression or classification, depending on the values of the target.
Task feature_task(const DataSpec& data, const FeatureTable& table);

// Reads `train` for a new head or model. Applies with_columns() to `spec`, sets `task` by feature_task() if it is none,
// and skips rows that cannot be used (run/data/bad_rows.h).
FeatureTable read_training_table(RunSpec& spec, Task& task, const Log& log);

// Makes all columns except the target `continuous`, in the file's order, if the model records no features and has one
// floating-point input (B, N). Changes nothing for other models, or if the settings name columns. Throws
// E_FEATURE_WIDTH if the settings name a table of features that does not have N such columns.
RunSpec with_fed_columns(RunSpec spec, const SourceGraph& graph, const std::string& path);
// Returns the distinct labels of the target in natural order, or nothing for regression. Throws E_TASK for tasks that
// tables do not support.
std::vector<std::string> feature_labels(const DataSpec& data, const FeatureTable& table, Task task);

// Fits categories, fill values and scales on the rows that will train (`limit_train`, `val_split`). Uses the members
// labeled, task and classes of `needs`.
Features fit_training_rows(const RunSpec& spec, const FeatureTable& table, const DataNeeds& needs);

// Returns the keys of the configuration (a JSON object) with which `architecture`, tabular or mlp, fits these features.
// A column with missing numbers also feeds an input that marks them. Uses the members task and classes of `needs`.
std::string fitting_config(const std::string& architecture, const Features& features, const DataNeeds& needs);

// As fit_training_rows(), and logs the features with the inputs that they feed. Throws E_CATEGORIES if a column has
// more codes than its embedding table has rows.
std::shared_ptr<const Features> learn_features(const RunSpec& spec, const FeatureTable& table, const SourceGraph& graph,
                                               const DataNeeds& needs, const Log& log);

// Throws E_NUM_LABELS if the labels are classes, the loss is cross-entropy, and the model has a single output value.
void require_outputs(const SourceGraph& graph, const Losses& losses, const std::vector<std::string>& classes);

// Opens the table as a dataset. Uses the members features, task, classes, labeled and inputs of `needs`. Logs values
// that the training data did not have.
std::unique_ptr<Dataset> open_feature_dataset(const FeatureTable& table, const SourceGraph& graph,
                                              const DataNeeds& needs);

// Returns one number for each of the `width` columns of the tensor that feeds an input: the number of rows of the
// embedding table that the column's codes index, or 0 if there is no such table. Follows slices, splits and gathers of
// columns. Defined in looked_up.cc.
std::vector<int64_t> looked_up_rows(const SourceGraph& graph, int input, int64_t width);

}  // namespace amp
