// Table: a table of text whose rows store their file and line. A cell whose text appears in the file unchanged is not
// copied: the table keeps the file (mapped if large) and the cell's offset. Everything else is in arrays that may be
// larger than memory (base/spill.h). Readers (data/reader.h) parse files into tables.
//
// Errors have exit code 5 and begin with "file:line:": E_DATA_EMPTY, E_DATA_UTF8, E_DATA_COLUMN and the errors of the
// readers.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/spill.h"
#include "data/skipped_rows.h"

namespace amp {

enum class Quoting : uint8_t { automatic, rfc4180, none };  // automatic: decided by the reader

struct TableReader;  // data/reader.h

struct TableOptions {
  char delimiter = 0;  // 0: the reader's default
  Quoting quoting = Quoting::automatic;
  bool header = true;  // false: the file has no header, and its columns are named "0", "1", ...
  // Columns that will be read. If all are numbers, the file has no header, unless its first row contains all of them.
  std::vector<std::string> wanted = {};
  std::string reader = {};   // name of a reader; empty: by the file's extension
  int64_t most_skipped = 0;  // number of rows that cannot be read and may be left out (Table::skipped)
};

class Table {
 public:
  // Reads one file, or several as one table; `names` is resolved as in data/text_file.h. Throws E_DATA_COLUMN if files
  // with a header differ in their columns; the order of columns may differ.
  static Table read(const std::string& names, const TableOptions& options = {});
  static Table parse(const FileBytes& file, const std::string& name, const TableReader& reader,
                     const TableOptions& options = {});
  // Parses a text, which is copied.
  static Table parse(std::string_view text, const std::string& name, const TableReader& reader,
                     const TableOptions& options = {});

  int64_t rows() const { return static_cast<int64_t>(lines_.size()); }
  const std::vector<std::string>& columns() const { return columns_; }
  const std::string& name() const { return names_.at(0); }  // name of the first file
  const std::vector<std::string>& names() const { return names_; }
  bool has_column(const std::string& column) const;
  // Returns the index of a column. If there is none, throws E_DATA_COLUMN with the existing columns and the nearest
  // name, or else `hint`.
  size_t column(const std::string& column, const std::string& hint = {}) const;
  bool has(int64_t row, size_t column) const;               // false: the JSON key is absent or null
  std::string_view text(int64_t row, size_t column) const;  // throws E_DATA_JSON if absent, or a JSON array or object
  // Returns whether the cell is a JSON array or object; json() returns its text.
  bool is_json(int64_t row, size_t column) const { return cell(row, column).kind == Kind::structure; }
  std::string_view json(int64_t row, size_t column) const;
  // Returns whether the text is a JSON number, true or false.
  bool is_literal(int64_t row, size_t column) const { return cell(row, column).kind == Kind::literal; }
  // Replaces every cell text that is a key of `texts` by its value.
  void replace(size_t column, const std::map<std::string, std::string>& texts);
  // Renames a column and replaces its cells by these JSON lists, one per row.
  void set_lists(size_t column, std::string name, const std::vector<std::string>& lists);
  // Calls check(row) for each row, and removes the rows for which it throws an error of Exit::data. Throws the error if
  // more than TableOptions::most_skipped rows were left out, or if no row would be left. Does nothing if most_skipped
  // is 0. Returns the former numbers of the rows that are left, or nothing if all are left.
  std::vector<int64_t> skip_failing(const std::function<void(int64_t)>& check);
  const std::vector<SkippedRow>& skipped() const { return skipped_; }
  int64_t may_skip() const { return most_skipped_ - static_cast<int64_t>(skipped_.size()); }
  // Allows `most` rows of a folder to be skipped. For a file, TableOptions::most_skipped has this number.
  void allow_skipped(int64_t most) { most_skipped_ = most; }
  // Notes on rows or bytes that were left out or changed, one sentence each; the caller prints them.
  const std::vector<std::string>& notes() const { return notes_; }
  void add_note(std::string note) { notes_.push_back(std::move(note)); }
  int64_t line(int64_t row) const { return lines_[static_cast<size_t>(row)]; }
  int32_t file(int64_t row) const { return files_[static_cast<size_t>(row)]; }  // index in names()
  std::string where(int64_t row) const;  // returns "train.csv:17"; only the file's name if the row is a whole file
  // Returns "train.csv:17:4", line and character of the cell, from 1; the row's position if the cell's is unknown.
  std::string where(int64_t row, size_t column) const;

 private:
  friend class TableBuilder;
  enum class Kind : uint8_t { text, literal, absent, structure };
  struct Cell {
    uint64_t begin = 0;
    uint32_t size = 0;
    uint32_t place = 0;  // position in the row's first line from 1, see where(); 0: unknown
    Kind kind = Kind::absent;
    bool in_file = false;  // whether `begin` is an offset in the row's file; else it is one in text_
  };
  const Cell& cell(int64_t row, size_t column) const;
  std::string_view bytes(int64_t row, const Cell& cell) const;
  uint32_t character_of(int64_t row, const Cell& cell) const;  // position in the line in characters, from 1; 0: unknown
  void append(const Table& other);
  void require_utf8_rows();  // throws or skips rows that are not valid UTF-8 or contain NUL
  std::vector<std::string> names_;
  bool open_ended_ = false;  // rows may lack columns (JSON)
  std::vector<std::string> columns_, notes_;
  int64_t most_skipped_ = 0;
  std::vector<SkippedRow> skipped_;
  std::vector<FileBytes> sources_;  // bytes of each file in names_, as the reader got them
  SpillVector<char> text_;          // texts of cells that are not in a file unchanged
  SpillVector<Cell> cells_;         // cells of all rows, row by row
  SpillVector<int64_t> lines_;      // line of each row, from 1; 0: the row stands for a whole file
  SpillVector<int32_t> files_;
};

}  // namespace amp
