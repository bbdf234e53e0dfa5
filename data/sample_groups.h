// Groups of samples for which metrics are reported separately. A group is a value of a column.
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
  std::vector<int32_t> of;         // sample -> index in names
};

// Groups by the values of a column; absent cells are the group "". If the table has no column "file", that name groups
// by file. Its group names are file names without extension and without the common prefix up to one of . _ -
// (dev-de.tsv, dev-fr.tsv: de, fr). source_rows: as in Dataset. Throws E_DATA_COLUMN, and E_GROUPS (exit 5) for more
// than 1000 groups or if the rows of the samples are not known.
SampleGroups group_samples(const Table& table, const std::string& column, std::span<const int64_t> source_rows,
                           int64_t samples);

// Wraps a dataset and adds groups (Dataset::groups).
std::unique_ptr<Dataset> make_grouped(std::shared_ptr<const Dataset> data, std::shared_ptr<const SampleGroups> groups);

}  // namespace amp
