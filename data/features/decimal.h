// Reads the number formats of different countries: 1,234.5 and 1.234,5.
#pragma once

#include <string>
#include <vector>

#include "data/table.h"

namespace amp {

enum class DecimalMark { automatic, point, comma };
DecimalMark decimal_mark(const std::string& name);  // reads a name: auto, point or comma

// Rewrites numbers with a decimal comma or thousands separators as 1234.5, and adds a note to the table. Only columns
// in which every text is such a number are changed. automatic: does so only if some column proves that the table has
// decimal commas (0,5); otherwise throws E_DATA_NUMBER for a column that is ambiguous (1,234). columns: the columns to
// examine.
void read_decimal_marks(Table& table, DecimalMark mark, const std::vector<std::string>& columns);

}  // namespace amp
