// Finds labels that probably mean the same although their texts differ (surrounding spaces, capital letters), and
// parses lists that are stored as text.
#pragma once

#include <string>
#include <vector>

#include "data/table.h"

namespace amp {

// Removes spaces around the texts of the column and adds a note with their count and an example to the table.
void trim_labels(Table& table, const std::string& column);

// Returns a sentence for each group of labels that differ only in capital letters or inner spaces, with the --label_map
// flags that merge them. Returns another sentence for labels that look like lists. Empty: nothing is suspicious.
std::vector<std::string> suspicious_labels(const std::vector<std::string>& labels);

// Parses a list as Python, NumPy or JSON write it: "['a', 'b']", "['a' 'b']", "('a',)", "{'a'}", "array(['a'],
// dtype=object)", "[1, 2]". Elements without quotes end at a comma. Returns false for other texts.
bool parse_list_text(std::string_view text, std::vector<std::string>& elements);
bool looks_like_list(std::string_view text);  // starts and ends with brackets

}  // namespace amp
