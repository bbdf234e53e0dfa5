// Formats rows of CSV and TSV files (RFC 4180).
#pragma once

#include <string>
#include <vector>

namespace amp {

std::string delimited(const std::vector<std::string>& cells, char delimiter);  // returns the row without a line break

}  // namespace amp
