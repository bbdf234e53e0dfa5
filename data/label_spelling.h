// Labels whose texts differ and that are probably one label: spaces around them, capital letters, lists as text.
#pragma once

#include <string>
#include <vector>

#include "data/table.h"

namespace amp {

// Drops the spaces around the column's texts, and adds a note to the table that counts and shows them.
void trim_labels(Table& table, const std::string& column);

// A sentence for every group of labels that differ only in capital letters or in spaces inside, with the --label_map
// flags that merge it; and one for labels that read like lists. Empty: there are none.
std::vector<std::string> suspicious_labels(const std::vector<std::string>& labels);

// A list as Python, NumPy or JSON write it: "['a', 'b']", "['a' 'b']", "('a',)", "{'a'}", "array(['a'], dtype=object)",
// "[1, 2]". Elements without quotes are words between commas. Returns false for a text that is no such list.
bool parse_list_text(std::string_view text, std::vector<std::string>& elements);
bool looks_like_list(std::string_view text);  // begins and ends with brackets

}  // namespace amp
