#include "data/table.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "data/table_builder.h"
#include "data/utf8.h"

namespace amp {

TableFormat table_format(const std::string& path) {
  const size_t dot = path.rfind('.');
  const std::string extension = dot == std::string::npos ? "" : path.substr(dot);
  if (extension == ".csv") return TableFormat::csv;
  if (extension == ".tsv" || extension == ".txt") return TableFormat::tsv;
  if (extension == ".jsonl" || extension == ".json") return TableFormat::jsonl;
  fail(
      Exit::usage, "E_FILE_TYPE", cat("'", path, "' has no extension that names a text table"),
      "text: .csv, .tsv, .txt (tabs), .jsonl, .json; tensors: .safetensors, .npz, .npy, as which images, IDX files and "
      "other arrays are to be saved");
}

Table Table::read(const std::string& path, const TableOptions& options) {
  const TableFormat format = table_format(path);
  return parse(read_file(path).text(), path, format, options);
}

Table Table::parse(std::string_view bytes, const std::string& name, TableFormat format, const TableOptions& options) {
  check_utf8_file(bytes, name);
  TableBuilder builder(name);
  if (format == TableFormat::jsonl) {
    parse_json_lines(bytes, builder);
  } else {
    const bool csv = format == TableFormat::csv;
    const Quoting quoting = options.quoting == Quoting::automatic && csv ? Quoting::rfc4180 : options.quoting;
    const char delimiter = options.delimiter ? options.delimiter : csv ? ',' : '\t';
    parse_delimited(bytes, delimiter, quoting, options.header, builder);
  }
  Table table = builder.finish();
  std::set<std::string> seen;
  for (const std::string& c : table.columns_) {
    if (!seen.insert(c).second) {
      fail(Exit::data, "E_DATA_COLUMN", cat(name, ":1: two columns are named '", printable(c), "'"));
    }
  }
  if (table.rows() == 0) {
    fail(Exit::data, "E_DATA_EMPTY",
         cat(name, ":1: no rows: the file has ", bytes.size(), " bytes and ", table.columns_.size(), " columns named"));
  }
  return table;
}

bool Table::has_column(const std::string& column) const {
  return std::find(columns_.begin(), columns_.end(), column) != columns_.end();
}

size_t Table::column(const std::string& column) const {
  const auto at = std::find(columns_.begin(), columns_.end(), column);
  if (at != columns_.end()) return static_cast<size_t>(at - columns_.begin());
  const std::string near = nearest(column, columns_);
  fail(Exit::data, "E_DATA_COLUMN",
       cat(name_, ":1: no column '", printable(column), "'; the file has: ", printable(join(columns_, ", "))),
       near.empty() ? "" : cat("did you mean '", printable(near), "'?"));
}

const Table::Cell& Table::cell(int64_t row, size_t column) const {
  check(row >= 0 && row < rows() && column < columns_.size(), "Table: cell out of range");
  return cells_[static_cast<size_t>(row) * columns_.size() + column];
}

bool Table::has(int64_t row, size_t column) const { return cell(row, column).kind != Kind::absent; }

std::string_view Table::text(int64_t row, size_t column) const {
  const Cell& c = cell(row, column);
  if (c.kind != Kind::text) {
    fail(Exit::data, "E_DATA_JSON",
         cat(where(row), ": key '", printable(columns_[column]), "' ",
             c.kind == Kind::absent ? "is missing or null" : "holds an array or object, not text"));
  }
  return std::string_view(text_).substr(c.begin, c.size);
}

std::string_view Table::json(int64_t row, size_t column) const {
  const Cell& c = cell(row, column);
  check(c.kind == Kind::structure, "Table::json: not a structure");
  return std::string_view(text_).substr(c.begin, c.size);
}

std::string Table::where(int64_t row) const { return cat(name_, ":", line(row)); }

}  // namespace amp
