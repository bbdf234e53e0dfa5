// `skip_bad_rows`: leaves out rows that cannot be used. The readers of files skip rows that they cannot parse
// (TableOptions::most_skipped); these functions check the cells of the other rows. A row is left out in every reading
// of the file, so labels, features and datasets agree, also after a resume and on all ranks.
#pragma once

#include <string>
#include <vector>

#include "data/features/feature_table.h"
#include "data/table.h"
#include "run/data/data_needs.h"

namespace amp {

struct RunSpec;
struct TextRows;

// Called before the data are read: creates data.skipped if `skip_bad_rows` is above 0. If `paths` are images, also
// decodes all of them, on several threads, to fill data.images.unreadable.
RunSpec with_skipping(RunSpec spec, const std::vector<std::string>& paths);

// Removes the rows in data.skipped.
void skip_known_rows(const RunSpec& spec, Table& table);
// Removes rows of a table of images whose file is missing or in data.images.unreadable.
void skip_bad_images(const RunSpec& spec, Table& table);
// Removes rows without a label of the task's form, or with a label that the setting `labels` lacks.
void skip_bad_labels(const RunSpec& spec, Task task, Table& table);
// Removes rows of tagged words whose words and tags do not match, and rows of questions whose answer is not in the
// text. label: column of tags or answers; empty: none is read.
void skip_malformed_texts(const RunSpec& spec, Task task, const std::string& label, Table& table);
// Removes the tagged texts of CoNLL files in data.skipped.
void skip_known_texts(const RunSpec& spec, TextRows& rows);
// Removes tagged texts of a table whose tags include one that is not in needs.classes.
void skip_unknown_tags(const RunSpec& spec, const DataNeeds& needs, TextRows& rows);
// Removes rows whose texts or label cannot be used. Uses the members task, labeled, sides, labels and classes of
// `needs`.
void skip_bad_texts(const RunSpec& spec, const DataNeeds& needs, Table& table);
// Removes rows whose label is not in needs.classes.
void skip_unknown_labels(const RunSpec& spec, const DataNeeds& needs, Table& table);
// Removes rows with a bad number, date or target. fitted: the features of a trained model; null: those of the settings.
// classes: empty if the classes are not known yet.
void skip_bad_features(const RunSpec& spec, Task task, const Features* fitted, const ClassNames& classes, bool labeled,
                       FeatureTable& table);

// Logs the skipped rows of a table or of texts, adds them to data.skipped, and appends them to needs.skipped.
void report_skipped(const RunSpec& spec, const TextRows& rows, const DataNeeds& needs);
void report_skipped(const RunSpec& spec, const Table& table, const DataNeeds& needs);

}  // namespace amp
