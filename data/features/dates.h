// Dates of tables and the parts that are features: those of fastai's add_datepart, under its names.
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
  int64_t seconds = 0;  // since 1970-01-01, UTC
};

// 2015-07-31, 2015/07/31, 20150731; with 12:30 or 12:30:59 behind a blank or T, fractions and Z dropped. Nothing for
// anything else: 07/31/2015 and 31/07/2015 cannot be told apart.
std::optional<Date> parse_date(std::string_view text);

struct DatePart {
  const char* name;  // Year, Month, Week ...
  bool continuous;   // else a category
  int64_t (*of)(const Date& date);
};
const std::vector<DatePart>& date_parts();

// "saleDate": "saleYear"; "Date": "Year".
std::string part_name(const std::string& column, const DatePart& part);

}  // namespace amp
