// Parsing and formatting of Booleans and numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace amp {

// Accepts true, false, yes, no, on, off, 1, 0 in any case.
std::optional<bool> parse_bool(std::string_view text);
std::optional<int64_t> parse_integer(std::string_view text);  // accepts "65536", "1e6", "3.0"
std::optional<double> parse_number(std::string_view text);    // accepts "5e-5", "inf"; refuses "nan"
std::string number_text(double v);                            // the shortest text that parses to v
std::string lower_case(std::string_view text);                // changes ASCII letters only

}  // namespace amp
