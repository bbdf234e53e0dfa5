// A table of text read from CSV (RFC 4180), TSV or JSON lines, held in memory; every row knows its line in the file.
//
// CSV: a field that begins with a quote ends at the next single quote; doubled quotes and line breaks stand inside.
// Lines end with LF, CRLF or CR. A byte order mark at the start of a row is dropped, an empty line is skipped.
// TSV: files of the GLUE kind have lone quotes in plain text, spreadsheets write RFC 4180. When no line is ragged
// without quoting, lines are rows and only a field that is wholly quoted is unquoted; else RFC 4180 applies.
// JSON lines: an object per line; columns are the keys in order of appearance; numbers and booleans read as their text.
//
// Errors, exit 5: E_DATA_EMPTY, E_DATA_UTF8, E_DATA_COLUMN, E_DATA_CSV, E_DATA_JSON; all begin with "file:line:".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace amp {

enum class TableFormat : uint8_t { csv, tsv, jsonl };
enum class Quoting : uint8_t { automatic, rfc4180, none };  // automatic: rfc4180 for CSV, as above for TSV

struct TableOptions {
  char delimiter = 0;  // 0: by format
  Quoting quoting = Quoting::automatic;
  bool header = true;  // false: columns are called "0", "1", ...
};

// .csv, .tsv and .txt (tabs), .jsonl and .json; any other: Exit::usage, E_FILE_TYPE.
TableFormat table_format(const std::string& path);

class Table {
 public:
  static Table read(const std::string& path, const TableOptions& options = {});
  static Table parse(std::string_view bytes, const std::string& name, TableFormat format,
                     const TableOptions& options = {});

  int64_t rows() const { return static_cast<int64_t>(lines_.size()); }
  const std::vector<std::string>& columns() const { return columns_; }
  const std::string& name() const { return name_; }
  bool has_column(const std::string& column) const;
  size_t column(const std::string& column) const;           // E_DATA_COLUMN with the columns found and the nearest
  bool has(int64_t row, size_t column) const;               // false: the JSON key is absent or null
  std::string_view text(int64_t row, size_t column) const;  // absent, or a JSON array or object: E_DATA_JSON
  // A JSON array or object as its JSON text; false for anything else.
  bool is_json(int64_t row, size_t column) const { return cell(row, column).kind == Kind::structure; }
  std::string_view json(int64_t row, size_t column) const;
  int64_t line(int64_t row) const { return lines_[static_cast<size_t>(row)]; }
  std::string where(int64_t row) const;  // "train.csv:17"

 private:
  friend class TableBuilder;
  enum class Kind : uint8_t { text, absent, structure };
  struct Cell {
    size_t begin = 0, size = 0;
    Kind kind = Kind::absent;
  };
  const Cell& cell(int64_t row, size_t column) const;
  std::string name_;
  std::vector<std::string> columns_;
  std::string text_;            // all cells, one after the other
  std::vector<Cell> cells_;     // rows x columns
  std::vector<int64_t> lines_;  // of each row's first character, from 1
};

}  // namespace amp
