// Labels of which a row may have several, with a column for each: 1 in the rows that have the label, else 0.
#pragma once

#include <string>
#include <vector>

#include "data/table.h"

namespace amp {

// names: "toxic,insult", as --label_column has it. Where the table has such columns and none called by the whole text,
// they become one column of that name: the JSON list of each row's labels. E_DATA_COLUMN: some of them are missing;
// E_DATA_LABEL, with the cell's place: a value that is neither 0 nor 1 (1.0, true and false count).
void join_label_columns(Table& table, const std::string& names);

// The labels of a column that join_label_columns made, in the order of their columns; empty for any other column.
std::vector<std::string> joined_labels(const Table& table, const std::string& column);

}  // namespace amp
