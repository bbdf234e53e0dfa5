// How the readers of table.cc and table_json.cc fill a Table.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/table.h"

namespace amp {

class TableBuilder {
 public:
  explicit TableBuilder(std::string name) { table_.name_ = std::move(name); }
  const std::string& name() const { return table_.name_; }
  std::vector<std::string>& columns() { return table_.columns_; }
  int64_t rows() const { return table_.rows(); }

  void begin_row(int64_t line) {
    table_.lines_.push_back(line);
    row_start_ = table_.cells_.size();
  }
  size_t cells_in_row() const { return table_.cells_.size() - row_start_; }
  void add_text(std::string_view text) { add(text, Table::Kind::text); }
  void add_structure(std::string_view json) { add(json, Table::Kind::structure); }
  void add_absent() { add({}, Table::Kind::absent); }
  Table finish() { return std::move(table_); }

 private:
  void add(std::string_view text, Table::Kind kind) {
    table_.cells_.push_back({table_.text_.size(), text.size(), kind});
    table_.text_ += text;
  }
  Table table_;
  size_t row_start_ = 0;
};

void parse_delimited(std::string_view bytes, char delimiter, Quoting quoting, bool header, TableBuilder& out);
void parse_json_lines(std::string_view bytes, TableBuilder& out);

}  // namespace amp
