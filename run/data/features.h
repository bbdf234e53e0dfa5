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
#include "run/data/data.h"
#include "trainer/losses/losses.h"

namespace amp {

struct DataSpec;
struct RunSpec;
struct TableSpec;

bool names_features(const TableSpec& tables);     // --categorical, --continuous, --date or --target was given
std::string target_column(const DataSpec& data);  // --target, else --label_column

// Reads a table, joins the files of --join and adds the parts of dates. fitted: features that a trained model records,
// whose joins and dates are used; null: those of the settings.
FeatureTable read_feature_table(const RunSpec& spec, const std::string& path, const Features* fitted, const Log& log);
std::vector<std::string> join_files(const TableSpec& tables);  // the files that --join names
TableSpec with_absolute_joins(TableSpec tables);               // with absolute paths in --join

// Chooses --categorical, --continuous and --date by the table's contents if no columns are named, and logs the choice.
// Fails for named columns that are missing or named twice.
RunSpec with_columns(RunSpec spec, FeatureTable& table, const Log& log);

Task feature_task(const DataSpec& data, const FeatureTable& table);  // by the target: regression or classification

// For a model that records no features and has one floating-point input (B, N): all columns except the target become
// --continuous, in the file's order. E_FEATURE_WIDTH: the table has not N such columns, and the settings name a table
// of features. Changes nothing for other models, or if the settings name columns.
RunSpec with_fed_columns(RunSpec spec, const SourceGraph& graph, const std::string& path);
// Distinct labels of the target in natural order; empty for regression. E_TASK for tasks that tables do not support.
std::vector<std::string> feature_labels(const DataSpec& data, const FeatureTable& table, Task task);

// Fits categories, fill values and scales on the rows that will train (--limit_train, --val_split), and logs them with
// the inputs that they feed. E_CATEGORIES: a column has more codes than its embedding table has rows.
std::shared_ptr<const Features> learn_features(const RunSpec& spec, const FeatureTable& table, const SourceGraph& graph,
                                               const DataNeeds& needs, const Log& log);

// E_NUM_LABELS: the labels are classes, the loss is cross-entropy, and the model has a single output value.
void require_outputs(const SourceGraph& graph, const Losses& losses, const std::vector<std::string>& classes);

// needs: features, task, classes, `labeled`, inputs. Logs values that the training data did not have.
std::unique_ptr<Dataset> open_feature_dataset(const FeatureTable& table, const SourceGraph& graph,
                                              const DataNeeds& needs);

// For each of the `width` columns of an input: rows of the embedding table that its codes index; 0: none. Follows
// slices, splits and gathers of columns. In looked_up.cc.
std::vector<int64_t> looked_up_rows(const SourceGraph& graph, int input, int64_t width);

}  // namespace amp
