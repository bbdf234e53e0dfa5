// Parses dates in tables and computes their parts (year, month, week ...), which become features with the names of
// fastai's add_datepart.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace amp {

struct Date {
  int year = 0;
  unsigned month = 1, day = 1;
  int64_t seconds = 0;  // seconds since 1970-01-01, UTC
};

// Parses 2015-07-31, 2015/07/31 or 20150731, optionally followed by a blank or T and 12:30 or 12:30:59. Fractions and Z
// are ignored. Returns nullopt for other texts, also for 07/31/2015 and 31/07/2015, which are ambiguous.
std::optional<Date> parse_date(std::string_view text);

struct DatePart {
  const char* name;  // such as "Year", "Month", "Week"
  bool continuous;   // true: the part is used as a number; false: as a category
  int64_t (*of)(const Date& date);
};
const std::vector<DatePart>& date_parts();

// Returns the name of the feature that a part of a column of dates becomes: "saleYear" for column "saleDate", "Year"
// for "Date".
std::string part_name(const std::string& column, const DatePart& part);

}  // namespace amp
