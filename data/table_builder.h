// How readers fill a Table.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/table.h"

namespace amp {

class TableBuilder {
 public:
  explicit TableBuilder(std::string name) { table_.names_ = {std::move(name)}; }
  const std::string& name() const { return table_.names_[0]; }
  std::vector<std::string>& columns() { return table_.columns_; }
  int64_t rows() const { return table_.rows(); }

  void begin_row(int64_t line) {
    table_.lines_.push_back(line);
    table_.files_.push_back(static_cast<int32_t>(table_.names_.size() - 1));
    row_start_ = table_.cells_.size();
  }
  // A row that is a file of its own: an image.
  void begin_file(std::string name) {
    table_.names_.push_back(std::move(name));
    begin_row(0);
  }
  size_t cells_in_row() const { return table_.cells_.size() - row_start_; }
  // place: of the cell in the row's first line, characters from 1; 0: not known.
  void add_text(std::string_view text, uint32_t place = 0) { add(text, Table::Kind::text, place); }
  void add_literal(std::string_view json) { add(json, Table::Kind::literal); }
  void add_structure(std::string_view json) { add(json, Table::Kind::structure); }
  void add_absent() { add({}, Table::Kind::absent); }
  void rows_may_lack_columns() { table_.open_ended_ = true; }
  Table finish() { return std::move(table_); }

 private:
  void add(std::string_view text, Table::Kind kind, uint32_t place = 0) {
    table_.cells_.push_back({table_.text_.size(), text.size(), kind, place});
    table_.text_ += text;
  }
  Table table_;
  size_t row_start_ = 0;
};

}  // namespace amp
