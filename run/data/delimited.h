// Writes lines of CSV and TSV (RFC 4180).
#pragma once

#include <string>
#include <vector>

namespace amp {

std::string delimited(const std::vector<std::string>& cells, char delimiter);  // without the line break

}  // namespace amp
