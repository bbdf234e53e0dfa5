// Guesses which columns of a table are features and of which kind. The rules are in guess.h. Columns that a setting
// names are not guessed; the caller merges both.
#include "data/features/guess.h"

#include <algorithm>
#include <cmath>
#include <unordered_set>

namespace amp {

namespace {

struct Look {
  int64_t rows = 0, present = 0;
  // counts_up: the values of the rows are n, n + 1, n + 2 ... as in a column of ids
  bool numbers = true, fractions = false, dates = true, counts_up = true;
  std::unordered_set<std::string_view> values;
  int64_t distinct() const { return static_cast<int64_t>(values.size()); }
};

// Examines the texts of a column. most: number of rows that may be skipped.
Look look_at(const FeatureColumn& column, int64_t most) {
  Look out;
  int64_t no_numbers = 0, no_dates = 0;  // numbers of distinct texts that are not numbers (not dates)
  double last = 0;
  std::string_view before;  // the previous row's text, which is often the same
  for (const std::string_view text : column.texts) {
    ++out.rows;
    if (text.empty()) continue;
    ++out.present;
    if (text == before || !out.values.insert(before = text).second) continue;
    const std::optional<double> x = no_numbers <= most ? read_number(text) : std::nullopt;
    no_numbers += !x;
    no_dates += no_dates <= most && (x || !parse_date(text));
    if (!x) continue;
    out.fractions |= *x != std::floor(*x);
    out.counts_up = out.counts_up && (out.present == 1 || *x == last + 1);
    last = *x;
  }
  const auto few = [&](int64_t others) { return others <= most && 10 * others <= out.distinct(); };
  out.numbers = few(no_numbers);
  out.dates = few(no_dates);
  return out;
}

std::string reason_to_leave(const Look& look, bool key) {
  if (look.present == 0) return "no value";
  if (look.distinct() == 1 && look.present == look.rows) return "one value in all rows";
  if (key || look.dates) return {};
  const bool texts = !look.numbers && look.distinct() > kMostClasses && 2 * look.distinct() > look.rows;
  const bool counter = look.numbers && look.counts_up && look.distinct() == look.rows && look.rows > kMostClasses;
  return texts || counter ? "a value of its own in nearly every row" : "";
}

}  // namespace

Guess guess_features(FeatureTable& table, const std::string& target, std::vector<std::string> dates,
                     const std::vector<Join>& joins) {
  Guess out;
  const bool look_for_dates = dates.empty();
  out.dates = std::move(dates);
  const std::vector<std::string> columns = table.columns();  // includes the parts of known dates
  std::vector<std::string> found;
  const auto is_key = [&](const std::string& name) {
    return std::any_of(joins.begin(), joins.end(), [&](const Join& j) {
      return std::any_of(j.keys.begin(), j.keys.end(), [&](const auto& k) { return k.first == name; });
    });
  };
  for (const std::string& name : columns) {
    if (name == target || std::find(out.dates.begin(), out.dates.end(), name) != out.dates.end()) continue;
    if (const DatePart* part = table.part(name)) {
      (part->continuous ? out.continuous : out.categorical).push_back(name);
      continue;
    }
    const Look look = look_at(table.column(name), table.table().may_skip());
    const bool key = is_key(name);
    if (const std::string why = reason_to_leave(look, key); !why.empty()) {
      out.left_out.emplace_back(name, why);
    } else if (look.dates) {
      if (look_for_dates) found.push_back(name);
      if (!look_for_dates) out.left_out.emplace_back(name, "a date that `date` does not name");
    } else if (!key && look.numbers && (look.fractions || look.distinct() > kMostClasses)) {
      out.continuous.push_back(name);
    } else {
      out.categorical.push_back(name);
    }
  }
  for (const std::string& name : found) {
    const size_t before = table.columns().size();
    table.add_parts(name);
    for (size_t c = before; c < table.columns().size(); ++c) {
      const std::string& part = table.columns()[c];
      (table.part(part)->continuous ? out.continuous : out.categorical).push_back(part);
    }
    out.dates.push_back(name);
  }
  return out;
}

bool is_number_target(const FeatureTable& table, const std::string& target) {
  const Look look = look_at(table.column(target), table.table().may_skip());
  return look.present > 0 && look.numbers && (look.fractions || look.distinct() > kMostClasses);
}

}  // namespace amp
