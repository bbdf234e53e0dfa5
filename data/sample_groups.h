// Groups of samples, by which metrics are told apart: a name for each sample, the value of a column of its row.
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
  std::vector<int32_t> of;         // sample -> place in names
};

// By the column's values, those that are absent as ""; where the table has no such column and it is "file", by file:
// names without extensions and without what all of them begin with up to one of . _ - (dev-de.tsv, dev-fr.tsv: de, fr).
// source_rows as Dataset has them. E_DATA_COLUMN; E_GROUPS (exit 5) for more than 1000 groups, and for `samples` that
// are not the table's rows.
SampleGroups group_samples(const Table& table, const std::string& column, std::span<const int64_t> source_rows,
                           int64_t samples);

// The same data with groups (Dataset::groups).
std::unique_ptr<Dataset> make_grouped(std::shared_ptr<const Dataset> data, std::shared_ptr<const SampleGroups> groups);

}  // namespace amp
