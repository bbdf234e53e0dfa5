// FeatureTable: all columns that features can be made of, which are the columns of a table, the columns of files joined
// to it by keys, and parts of dates (year, month ...). Errors have exit code 5, with file, line and position in the
// line.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/features/dates.h"
#include "data/table.h"

namespace amp {

// A --join value: "store.csv:Store", "weather.csv:State,Date", or "store.csv:Store=Id" if the key is named Id in that
// file.
struct Join {
  std::string file;
  // pairs of key columns: (name in the main table, name in `file`)
  std::vector<std::pair<std::string, std::string>> keys;
};
Join parse_join(const std::string& text);  // throws E_FLAG_VALUE (Exit::usage)

// Texts of a column, one per row; an empty text is a missing value.
struct FeatureColumn {
  std::vector<std::string_view> texts;
  std::shared_ptr<const std::deque<std::string>> own;  // owns the texts of date parts
};

class FeatureTable {
 public:
  explicit FeatureTable(Table table);
  FeatureTable(FeatureTable&&) = default;
  FeatureTable& operator=(FeatureTable&&) = default;

  // Adds the columns of `other` to the rows with the same keys. A column whose name exists already is named
  // STEM.COLUMN. Returns the number of rows without a match. Throws E_JOIN if a key occurs twice in `other`.
  int64_t join(const Join& join, Table other);
  // Removes the rows for which check(row) throws, as Table::skip_failing() does for the main table.
  void skip_failing(const std::function<void(int64_t)>& check);
  void add_parts(const std::string& column);  // adds the parts of a column of dates (data/features/dates.h)

  Table release() && { return std::move(sources_.front().table); }
  const Table& table() const { return sources_.front().table; }
  int64_t rows() const { return table().rows(); }
  const std::vector<std::string>& columns() const { return names_; }
  bool has(const std::string& column) const { return places_.count(column) != 0; }
  const DatePart* part(const std::string& column) const;  // returns null if the column is not part of a date
  void require(const std::string& column) const;          // throws E_DATA_COLUMN with the nearest name
  FeatureColumn column(const std::string& name) const;
  // Returns "train.csv:17:4"; for a joined cell "store.csv:5:3, joined to train.csv:17".
  std::string where(int64_t row, const std::string& column) const;

 private:
  struct Source {
    Table table;
    // for each row of the main table, the index of the joined row of this table, or -1; empty for the main table
    std::vector<int64_t> rows = {};
  };
  struct Place {
    size_t source = 0, column = 0;
    const DatePart* part = nullptr;
  };
  void add_name(const std::string& name, const Place& place);
  std::string_view text(const Place& place, int64_t row) const;

  std::vector<Source> sources_;
  std::vector<std::string> names_;
  std::map<std::string, Place> places_;
};

// Returns whether the text is one of pandas' missing values: "", "NA", "NaN", "null", "None" ...
bool is_missing(std::string_view text);

}  // namespace amp
