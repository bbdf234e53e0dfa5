// A table of text; every row knows its file and line. Cells that stand in their file as they are read are not copied:
// the table keeps the file (mapped, where it is large) and their places in it. All the rest lies in arrays that may be
// larger than memory (base/spill.h). What reads a table from a file of some kind is a reader (data/reader.h).
//
// Errors, exit 5: E_DATA_EMPTY, E_DATA_UTF8, E_DATA_COLUMN and those of the readers; all begin with "file:line:".
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/spill.h"

namespace amp {

enum class Quoting : uint8_t { automatic, rfc4180, none };  // automatic: the reader's own rule

struct TableReader;  // data/reader.h

struct TableOptions {
  char delimiter = 0;  // 0: the reader's own
  Quoting quoting = Quoting::automatic;
  bool header = true;  // false: columns are called "0", "1", ...
  // Columns that will be asked for. Numbers name columns of a file without header, unless its first row holds them all.
  std::vector<std::string> wanted = {};
  std::string reader = {};  // by name; empty: by the file's extension
};

class Table {
 public:
  // One file, or several as one table: names as data/text_file.h takes them. Files with a header have the same columns
  // in any order (E_DATA_COLUMN).
  static Table read(const std::string& names, const TableOptions& options = {});
  static Table parse(const FileBytes& file, const std::string& name, const TableReader& reader,
                     const TableOptions& options = {});
  // Of a text that is copied.
  static Table parse(std::string_view text, const std::string& name, const TableReader& reader,
                     const TableOptions& options = {});

  int64_t rows() const { return static_cast<int64_t>(lines_.size()); }
  const std::vector<std::string>& columns() const { return columns_; }
  const std::string& name() const { return names_.at(0); }  // of the first file
  const std::vector<std::string>& names() const { return names_; }
  bool has_column(const std::string& column) const;
  // E_DATA_COLUMN with the columns found, and the nearest or else `hint`.
  size_t column(const std::string& column, const std::string& hint = {}) const;
  bool has(int64_t row, size_t column) const;               // false: the JSON key is absent or null
  std::string_view text(int64_t row, size_t column) const;  // absent, or a JSON array or object: E_DATA_JSON
  // A JSON array or object as its JSON text; false for anything else.
  bool is_json(int64_t row, size_t column) const { return cell(row, column).kind == Kind::structure; }
  std::string_view json(int64_t row, size_t column) const;
  // The text is a JSON number, true or false.
  bool is_literal(int64_t row, size_t column) const { return cell(row, column).kind == Kind::literal; }
  void replace(size_t column, const std::map<std::string, std::string>& texts);  // texts that are keys by their values
  // Renames a column; its cells become these JSON lists, one a row.
  void set_lists(size_t column, std::string name, const std::vector<std::string>& lists);
  // Notes on rows or bytes that reading left out or changed, a sentence each; the caller prints them.
  const std::vector<std::string>& notes() const { return notes_; }
  void add_note(std::string note) { notes_.push_back(std::move(note)); }
  int64_t line(int64_t row) const { return lines_[static_cast<size_t>(row)]; }
  int32_t file(int64_t row) const { return files_[static_cast<size_t>(row)]; }  // in names()
  std::string where(int64_t row) const;  // "train.csv:17"; of a row that is a file its name
  // "train.csv:17:4": the line and its character, from 1, where the cell begins; the row's place where it is not known.
  std::string where(int64_t row, size_t column) const;

 private:
  friend class TableBuilder;
  enum class Kind : uint8_t { text, literal, absent, structure };
  struct Cell {
    uint64_t begin = 0;
    uint32_t size = 0;
    uint32_t place = 0;  // in the row's first line, characters from 1; 0: not known
    Kind kind = Kind::absent;
    bool in_file = false;  // begin counts in the row's file, else in text_
  };
  const Cell& cell(int64_t row, size_t column) const;
  std::string_view bytes(int64_t row, const Cell& cell) const;
  void append(const Table& other);
  std::vector<std::string> names_;
  bool open_ended_ = false;  // rows may lack columns: of JSON
  std::vector<std::string> columns_, notes_;
  std::vector<FileBytes> sources_;  // of each name, as its reader saw it
  SpillVector<char> text_;          // cells that stand in no file as they are read, one after the other
  SpillVector<Cell> cells_;         // rows x columns
  SpillVector<int64_t> lines_;      // of each row's first character, from 1; 0: the row is a file
  SpillVector<int32_t> files_;
};

}  // namespace amp
