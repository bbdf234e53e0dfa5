// A table as features see it: its own columns, those of other files joined by keys, and parts of its dates. Errors:
// exit 5, with file, line and place in the line.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/features/dates.h"
#include "data/table.h"

namespace amp {

// "store.csv:Store", "weather.csv:State,Date", "store.csv:Store=Id" where the key is called Id there.
struct Join {
  std::string file;
  std::vector<std::pair<std::string, std::string>> keys;  // here, there
};
Join parse_join(const std::string& text);  // Exit::usage, E_FLAG_VALUE

// Texts of a column, a row each; an empty one is missing.
struct FeatureColumn {
  std::vector<std::string_view> texts;
  std::shared_ptr<const std::deque<std::string>> own;  // what texts of parts point into
};

class FeatureTable {
 public:
  explicit FeatureTable(Table table);
  FeatureTable(FeatureTable&&) = default;
  FeatureTable& operator=(FeatureTable&&) = default;

  // Rows of `other` beside those with the same keys; columns that are here already are called STEM.COLUMN. Returns the
  // rows that have none. E_JOIN for a key that stands there twice.
  int64_t join(const Join& join, Table other);
  void add_parts(const std::string& column);  // of a column of dates

  Table release() && { return std::move(sources_.front().table); }
  const Table& table() const { return sources_.front().table; }
  int64_t rows() const { return table().rows(); }
  const std::vector<std::string>& columns() const { return names_; }
  bool has(const std::string& column) const { return places_.count(column) != 0; }
  const DatePart* part(const std::string& column) const;  // null: not a part of a date
  void require(const std::string& column) const;          // E_DATA_COLUMN with the nearest name
  FeatureColumn column(const std::string& name) const;
  // "train.csv:17:4"; of a joined cell "store.csv:5:3, joined to train.csv:17".
  std::string where(int64_t row, const std::string& column) const;

 private:
  struct Source {
    Table table;
    std::vector<int64_t> rows = {};  // by row of the first source, -1: none; empty: the first source itself
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

// pandas' words for a missing value: "", "NA", "NaN", "null", "None" ...
bool is_missing(std::string_view text);

}  // namespace amp
