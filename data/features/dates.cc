// Implements dates.h with std::chrono. Definitions are those of pandas' dt accessor, which fastai's add_datepart uses.
#include "data/features/dates.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>

namespace amp {

namespace {

namespace chr = std::chrono;

chr::year_month_day calendar(const Date& d) { return chr::year(d.year) / chr::month(d.month) / chr::day(d.day); }
chr::sys_days days(const Date& d) { return chr::sys_days(calendar(d)); }

bool last_of_month(const Date& d) {
  return calendar(d).day() ==
         chr::year_month_day_last(chr::year(d.year), chr::month_day_last(chr::month(d.month))).day();
}

// Returns the day of the week as pandas does: 0 for Monday, 6 for Sunday.
int64_t weekday(const Date& d) { return chr::weekday(days(d)).iso_encoding() - 1; }

int64_t day_of_year(const Date& d) {
  return (days(d) - chr::sys_days(chr::year(d.year) / chr::January / 1)).count() + 1;
}

// Returns the ISO 8601 week: the week of the year that contains this week's Thursday.
int64_t week(const Date& d) {
  const chr::year_month_day thursday(days(d) + chr::days(3 - weekday(d)));
  const chr::sys_days first(thursday.year() / chr::January / 1);
  return (chr::sys_days(thursday) - first).count() / 7 + 1;
}

// Parses and removes `digits` leading digits. Returns -1 if there are other characters.
int number(std::string_view& text, size_t digits) {
  if (text.size() < digits) return -1;
  int v = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + digits, v);
  if (code != std::errc() || end != text.data() + digits || text[0] == '-') return -1;
  text.remove_prefix(digits);
  return v;
}

bool skip(std::string_view& text, char c) {
  if (text.empty() || text[0] != c) return false;
  text.remove_prefix(1);
  return true;
}

}  // namespace

std::optional<Date> parse_date(std::string_view text) {
  const int year = number(text, 4);
  const char between = !text.empty() && (text[0] == '-' || text[0] == '/') ? text[0] : '\0';
  if (between) text.remove_prefix(1);
  const int month = number(text, 2);
  if (between && !skip(text, between)) return std::nullopt;
  const int day = number(text, 2);
  if (year < 0 || month < 1 || month > 12 || day < 1) return std::nullopt;
  Date d{year, static_cast<unsigned>(month), static_cast<unsigned>(day), 0};
  if (!calendar(d).ok()) return std::nullopt;
  int64_t seconds = 0;
  if (skip(text, ' ') || skip(text, 'T')) {
    const int hours = number(text, 2);
    const int minutes = skip(text, ':') ? number(text, 2) : -1;
    int rest = 0;
    if (skip(text, ':')) rest = number(text, 2);
    if (hours < 0 || hours > 23 || minutes < 0 || minutes > 59 || rest < 0 || rest > 59) return std::nullopt;
    if (skip(text, '.')) text.remove_prefix(std::min(text.size(), text.find_first_not_of("0123456789")));
    skip(text, 'Z');
    seconds = hours * 3600 + minutes * 60 + rest;
  }
  if (!text.empty()) return std::nullopt;
  d.seconds = int64_t{days(d).time_since_epoch().count()} * 86400 + seconds;
  return d;
}

const std::vector<DatePart>& date_parts() {
  static const std::vector<DatePart> parts = {
      {"Year", false, [](const Date& d) { return int64_t{d.year}; }},
      {"Month", false, [](const Date& d) { return int64_t{d.month}; }},
      {"Week", false, week},
      {"Day", false, [](const Date& d) { return int64_t{d.day}; }},
      {"Dayofweek", false, weekday},
      {"Dayofyear", false, day_of_year},
      {"Is_month_end", false, [](const Date& d) { return int64_t{last_of_month(d)}; }},
      {"Is_month_start", false, [](const Date& d) { return int64_t{d.day == 1}; }},
      {"Is_quarter_end", false, [](const Date& d) { return int64_t{d.month % 3 == 0 && last_of_month(d)}; }},
      {"Is_quarter_start", false, [](const Date& d) { return int64_t{d.month % 3 == 1 && d.day == 1}; }},
      {"Is_year_end", false, [](const Date& d) { return int64_t{d.month == 12 && d.day == 31}; }},
      {"Is_year_start", false, [](const Date& d) { return int64_t{d.month == 1 && d.day == 1}; }},
      {"Elapsed", true, [](const Date& d) { return d.seconds; }},
  };
  return parts;
}

std::string part_name(const std::string& column, const DatePart& part) {
  const bool named = column.ends_with("Date") || column.ends_with("date");
  return (named ? column.substr(0, column.size() - 4) : column) + part.name;
}

}  // namespace amp
