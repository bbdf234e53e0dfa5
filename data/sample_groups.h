// Groups of samples for which metrics are reported separately. The samples of a group have the same value in one column
// of the table.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/table.h"

namespace amp {

struct SampleGroups {
  std::string column;
  std::vector<std::string> names;  // sorted by bytes
  std::vector<int32_t> of;         // group of each sample, as an index in names
};

// Groups samples by the values of a column; samples without a value are the group "". If `column` is "file" and the
// table has no such column, samples are grouped by file. The group names are then the file names without extension and
// without the common prefix up to one of . _ - (dev-de.tsv, dev-fr.tsv: de, fr). source_rows: Dataset::source_rows().
// Throws E_DATA_COLUMN for an unknown column. Throws E_DATA_GROUPS (exit 5) for more than 1000 groups, or if the table
// rows of the samples are not known.
SampleGroups group_samples(const Table& table, const std::string& column, std::span<const int64_t> source_rows,
                           int64_t samples);

// Wraps a dataset and adds groups (Dataset::groups).
std::unique_ptr<Dataset> make_grouped(std::shared_ptr<const Dataset> data, std::shared_ptr<const SampleGroups> groups);

}  // namespace amp
