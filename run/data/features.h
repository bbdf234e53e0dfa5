// Tables of features as a run reads them: which columns are what, and how they reach the model's inputs
// (docs/tables.md).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "data/features/feature_dataset.h"
#include "data/features/features.h"
#include "graph/source.h"
#include "run/data/data.h"
#include "run/spec/spec.h"
#include "trainer/losses/losses.h"

namespace amp {

bool names_features(const RunSpec& spec);        // --categorical, --continuous, --date or --target was given
std::string target_column(const RunSpec& spec);  // --target, else --label_column

// With joined files and parts of dates. fitted: of a model that was trained so; null: as the settings say.
FeatureTable read_feature_table(const RunSpec& spec, const std::string& path, const Features* fitted, const Log& log);
std::vector<std::string> join_files(const RunSpec& spec);
RunSpec with_absolute_joins(RunSpec spec);

// --categorical, --continuous and --date where nobody named any, told in one line; refuses names that are not there, or
// stand twice.
RunSpec with_columns(RunSpec spec, FeatureTable& table, const Log& log);

Task feature_task(const RunSpec& spec, const FeatureTable& table);  // by the target

// For a model that records no features: where it takes one floating input (B, N), the columns of the
// table beside the target become --continuous, in the file's order. E_FEATURE_WIDTH: there are not
// N of them, and the settings name a table of features. Other models, and settings that name
// columns, are left as they are.
RunSpec with_fed_columns(RunSpec spec, const SourceGraph& graph, const std::string& path);
// Labels of the target, distinct and in natural order; E_TASK for a task that is none of tables.
std::vector<std::string> feature_labels(const RunSpec& spec, const FeatureTable& table, Task task);

// Learnt from the rows that training will have (--limit_train, --val_split), told; and which of them go to which input.
// E_CATEGORIES for more codes than the table has rows that the model looks them up in.
std::shared_ptr<const Features> learn_features(const RunSpec& spec, const FeatureTable& table, const SourceGraph& graph,
                                               const DataNeeds& needs, const Log& log);

// E_NUM_LABELS for classes that one output cannot tell apart by cross-entropy.
void require_outputs(const SourceGraph& graph, const Losses& losses, const std::vector<std::string>& classes);

// needs: features, task, classes, labelled, inputs. name: of the file, in notes.
std::unique_ptr<Dataset> open_feature_dataset(const FeatureTable& table, const SourceGraph& graph,
                                              const DataNeeds& needs);

// Rows of the table that the codes of an input's columns look up, by column; 0: none. Slices, splits and gathers of
// columns are followed.
std::vector<int64_t> looked_up_rows(const SourceGraph& graph, int input, int64_t width);

}  // namespace amp
