#include "data/labels.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>
#include <unordered_map>

#include "base/error.h"
#include "base/text.h"

namespace amp {

namespace {

std::string_view label(const Table& table, int64_t row, size_t column) {
  const std::string_view text = table.has(row, column) ? table.text(row, column) : std::string_view();
  if (text.empty()) {
    fail(Exit::data, "E_DATA_LABEL",
         cat(table.where(row), ": no label in column '", printable(table.columns()[column]), "'"),
         "fill it in or remove the row");
  }
  return text;
}

}  // namespace

std::vector<std::string> find_classes(const Table& table, const std::string& column) {
  const size_t c = table.column(column);
  std::set<std::string, std::less<>> values;
  for (int64_t r = 0; r < table.rows(); ++r) {
    const std::string_view value = label(table, r, c);
    if (values.find(value) == values.end()) values.emplace(value);
  }
  if (values.size() == 1) {
    fail(Exit::data, "E_DATA_LABEL",
         cat(table.name(), ":1: all ", table.rows(), " rows have the label '", printable(*values.begin()),
             "' in column '", printable(column), "': there is nothing to tell apart"),
         "check --label_column, or whether the file was cut or sorted by label");
  }
  return {values.begin(), values.end()};
}

std::vector<int64_t> class_ids(const Table& table, const std::string& column, std::span<const std::string> classes) {
  const size_t c = table.column(column);
  std::unordered_map<std::string_view, int64_t> ids;
  for (size_t i = 0; i < classes.size(); ++i) ids.emplace(classes[i], static_cast<int64_t>(i));
  std::vector<int64_t> out;
  for (int64_t r = 0; r < table.rows(); ++r) {
    const std::string_view value = label(table, r, c);
    const auto known = ids.find(value);
    if (known == ids.end()) {
      const std::vector<std::string> shown(
          classes.begin(), classes.begin() + static_cast<std::ptrdiff_t>(std::min<size_t>(classes.size(), 20)));
      fail(
          Exit::data, "E_DATA_LABEL_NEW",
          cat(table.where(r), ": label '", printable(value), "' in column '", printable(column), "' is not known; the ",
              classes.size(), " known labels are: ", join(shown, ", "), classes.size() > shown.size() ? ", ..." : ""),
          "labels come from the training data; correct the row or add such rows to the training data");
    }
    out.push_back(known->second);
  }
  return out;
}

std::vector<float> label_numbers(const Table& table, const std::string& column) {
  const size_t c = table.column(column);
  std::vector<float> out;
  for (int64_t r = 0; r < table.rows(); ++r) {
    const std::string_view text = label(table, r, c);
    float v = 0;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), v);
    if (code != std::errc() || end != text.data() + text.size() || !std::isfinite(v)) {
      fail(Exit::data, "E_DATA_LABEL", cat(table.where(r), ": label '", printable(text), "' is not a finite number"));
    }
    out.push_back(v);
  }
  return out;
}

}  // namespace amp
