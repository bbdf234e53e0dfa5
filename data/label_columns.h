// Reads multi-label data with one column per label, which holds 1 in the rows that have the label and 0 in all others.
#pragma once

#include <string>
#include <vector>

#include "data/table.h"

namespace amp {

// Joins the columns that `names` lists ("toxic,insult", as in --label_column) into one column named `names`. Each cell
// of it is the JSON list of the row's labels. Nothing changes if a column is named `names` as a whole, or if none of
// the listed columns exists. Throws E_DATA_COLUMN if only some exist. Throws E_DATA_LABEL with the cell's position for
// a value other than 0 and 1 (1.0, true and false are accepted).
void join_label_columns(Table& table, const std::string& names);

// Returns the labels of a column made by join_label_columns, in the order of their columns; empty for other columns.
std::vector<std::string> joined_labels(const Table& table, const std::string& column);

}  // namespace amp
