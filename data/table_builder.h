// TableBuilder: the interface with which readers fill a Table.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/activity.h"
#include "base/error.h"
#include "data/table.h"

namespace amp {

class TableBuilder {
 public:
  // source: the bytes that the reader parses; empty: rows are files. most_skipped: TableOptions::most_skipped.
  explicit TableBuilder(std::string name, FileBytes source = {}, int64_t most_skipped = 0) {
    table_.names_ = {std::move(name)};
    table_.most_skipped_ = most_skipped;
    table_.sources_ = {std::move(source)};
  }
  // Reports the bytes of the source that are parsed. reading: must outlive the builder.
  void report_to(Activity& reading) { reading_ = &reading; }
  const std::string& name() const { return table_.names_[0]; }
  std::vector<std::string>& columns() { return table_.columns_; }
  int64_t rows() const { return table_.rows(); }

  // Leaves out the row at `line`, which has not begun, because of this error. Rethrows the error, which is being
  // handled, if no more rows may be left out.
  void skip(const Error& error, int64_t line);
  // Calls read(), which reads the row at `line` but does not begin it. Returns false if read() throws an error of
  // Exit::data and the row is left out.
  template <class F>
  bool try_row(int64_t line, F&& read) {
    try {
      read();
      return true;
    } catch (const Error& e) {
      skip(e, line);
      return false;
    }
  }
  // Begins a row. at: offset of the row in the source, for the report only.
  void begin_row(int64_t line, size_t at = 0);
  // Begins a row that is a file by itself, such as an image.
  void begin_file(std::string name) {
    table_.names_.push_back(std::move(name));
    table_.sources_.emplace_back();
    begin_row(0);
  }
  size_t cells_in_row() const { return table_.cells_.size() - row_start_; }
  // Adds a row of texts. places: as `place` of add_text(), but in bytes for parts of the source file.
  void add_row(int64_t line, std::span<const std::string_view> fields, std::span<const uint32_t> places);
  // Adds a text; a part of the source file is not copied. place: character of the cell in the row's first line, from 1;
  // 0: unknown.
  void add_text(std::string_view text, uint32_t place = 0) { add(text, Table::Kind::text, place); }
  void add_literal(std::string_view json) { add(json, Table::Kind::literal); }
  void add_structure(std::string_view json) { add(json, Table::Kind::structure); }
  void add_absent() { add({}, Table::Kind::absent); }
  // Called before the first row. Columns may then be added between rows; earlier rows lack them. A row may have fewer
  // cells than there are columns.
  void rows_may_lack_columns() { table_.open_ended_ = true; }
  Table finish();

 private:
  void add(std::string_view text, Table::Kind kind, uint32_t place = 0);
  void end_row();
  Table table_;
  Activity* reading_ = nullptr;
  size_t row_start_ = 0;
  std::vector<std::pair<int64_t, size_t>> widths_;  // (row, number of cells that this row and the rows after it have)
};

}  // namespace amp
