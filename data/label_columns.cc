#include "data/label_columns.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/number_text.h"
#include "base/text.h"

namespace amp {

namespace {

std::optional<bool> truth(std::string_view text) {
  const std::string word = lower_case(trimmed(text));
  if (word == "1" || word == "1.0" || word == "true") return true;
  if (word == "0" || word == "0.0" || word == "false") return false;
  return std::nullopt;
}

}  // namespace

void join_label_columns(Table& table, const std::string& names) {
  const std::vector<std::string> labels = split(names, ',');
  const auto there = [&](const std::string& label) { return table.has_column(label); };
  if (labels.size() < 2 || table.has_column(names) || std::none_of(labels.begin(), labels.end(), there)) return;
  std::vector<size_t> columns;
  for (const std::string& label : labels) columns.push_back(table.column(label));
  const auto list_of = [&](int64_t r) {
    nlohmann::json list = nlohmann::json::array();
    for (size_t i = 0; i < columns.size(); ++i) {
      const bool text = table.has(r, columns[i]) && !table.is_json(r, columns[i]);
      const std::optional<bool> has = text ? truth(table.text(r, columns[i])) : std::nullopt;
      if (!has)
        fail(Exit::data, "E_DATA_LABEL",
             cat(table.where(r, columns[i]), ": ",
                 text ? cat("'", printable(table.text(r, columns[i])), "'") : std::string("nothing"), " in column '",
                 printable(labels[i]), "'; the columns of labels hold 0 or 1"),
             "correct the row; one column of class names: `label_column` NAME");
      if (*has) list.push_back(labels[i]);
    }
    return list.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  };
  table.skip_failing([&](int64_t r) { list_of(r); });
  std::vector<std::string> lists;
  for (int64_t r = 0; r < table.rows(); ++r) lists.push_back(list_of(r));
  table.set_lists(columns[0], names, lists);
}

std::vector<std::string> joined_labels(const Table& table, const std::string& column) {
  if (table.rows() == 0 || column.find(',') == std::string::npos || !table.has_column(column)) return {};
  return table.is_json(0, table.column(column)) ? split(column, ',') : std::vector<std::string>();
}

}  // namespace amp
