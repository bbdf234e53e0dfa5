// Numbers in tables as countries write them: 1,234.5 and 1.234,5.
#pragma once

#include <string>
#include <vector>

#include "data/table.h"

namespace amp {

enum class DecimalMark { automatic, point, comma };
DecimalMark decimal_mark(const std::string& name);  // auto, point, comma

// Rewrites the numbers of columns that have a decimal comma, or marks between thousands, as 1234.5, and adds a note to
// the table. A column counts where every text in it is such a number. automatic: only where a column shows that the
// table has decimal commas (0,5); E_DATA_NUMBER for one that may have either (1,234).
// columns: those to look at, others are left alone.
void read_decimal_marks(Table& table, DecimalMark mark, const std::vector<std::string>& columns);

}  // namespace amp
