// Implements Table: cells are (offset, size) into the mapped file or into text_. append() merges tables of several
// files, which have the same columns unless their format lets rows lack columns (JSON). Rows, cells and texts are in
// SpillVectors, which continue on disk if memory is short.
#include "data/table.h"

#include <algorithm>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "base/utf8.h"
#include "data/reader.h"
#include "data/text_file.h"

namespace amp {

Table Table::read(const std::string& names, const TableOptions& options) {
  const std::vector<std::string> files = files_named(names);
  for (const std::string& f : files) {  // checks all names before reading
    if (options.reader.empty()) reader_of(f);
  }
  std::optional<Table> all;
  for (const std::string& f : files) {
    const TableReader& reader = options.reader.empty() ? reader_of(f) : reader_named(options.reader);
    TableOptions own = options;
    if (all) own.most_skipped = all->may_skip();
    Table one = parse(read_text_file(f), f, reader, own);
    if (all) {
      all->append(one);
    } else {
      all = std::move(one);
    }
  }
  if (!all)
    fail(Exit::usage, "E_FILE_MISSING", cat("'", printable(names), "' names no file"), "name one or several, A,B");
  return std::move(*all);
}

Table Table::parse(std::string_view text, const std::string& name, const TableReader& reader,
                   const TableOptions& options) {
  const auto copy = std::make_shared<std::vector<uint8_t>>(text.begin(), text.end());
  return parse({std::shared_ptr<uint8_t>(copy, copy->data()), static_cast<int64_t>(text.size())}, name, reader,
               options);
}

Table Table::parse(const FileBytes& file, const std::string& name, const TableReader& reader,
                   const TableOptions& options) {
  const std::string_view bytes = file.text();
  bool utf8 = true;
  try {
    check_utf8_file(bytes, name);
  } catch (const Error&) {
    utf8 = false;
    if (options.most_skipped == 0 || is_utf16(bytes)) throw;
  }
  Activity reading(cat("reading ", name_in_folder(name)), "B", static_cast<int64_t>(bytes.size()));
  TableBuilder builder(name, file, options.most_skipped);
  builder.report_to(reading);
  reader.read(bytes, options, builder);
  Table table = builder.finish();
  if (!utf8) table.require_utf8_rows();
  std::set<std::string> seen;
  for (const std::string& c : table.columns_) {
    if (!seen.insert(c).second) {
      fail(Exit::data, "E_DATA_COLUMN", cat(name, ":1: two columns are named '", printable(c), "'"));
    }
  }
  if (table.rows() == 0) {
    fail(Exit::data, "E_DATA_EMPTY",
         cat(name, ":1: no rows: the file has ", bytes.size(), " bytes and ", table.columns_.size(), " columns named"),
         "write at least one row below the names of the columns");
  }
  return table;
}

void Table::require_utf8_rows() {
  for (const std::string& c : columns_) check_utf8_file(c, name());
  skip_failing([&](int64_t row) {
    for (size_t c = 0; c < columns_.size(); ++c) {
      require_utf8_text(bytes(row, cell(row, c)), where(row, c));
    }
  });
}

std::vector<int64_t> Table::skip_failing(const std::function<void(int64_t)>& check) {
  std::vector<int64_t> left;
  if (most_skipped_ == 0) return left;
  const size_t before = skipped_.size();
  for (int64_t r = 0; r < rows(); ++r) {
    try {
      check(r);
      left.push_back(r);
    } catch (const Error& e) {
      const bool last = r + 1 == rows() && left.empty();
      if (e.exit() != Exit::data || may_skip() <= 0 || last) throw;
      skipped_.push_back({names_[static_cast<size_t>(file(r))], line(r), e.fact()});
    }
  }
  if (skipped_.size() == before) return {};
  const size_t width = columns_.size();
  for (size_t to = 0; to < left.size(); ++to) {
    const auto from = static_cast<size_t>(left[to]);
    std::copy_n(cells_.data() + from * width, width, cells_.data() + to * width);
    lines_[to] = lines_[from];
    files_[to] = files_[from];
  }
  cells_.resize(left.size() * width);
  lines_.resize(left.size());
  files_.resize(left.size());
  return left;
}

void Table::append(const Table& other) {
  const auto missing = [](const Table& in, const Table& from) {
    return std::find_if(from.columns_.begin(), from.columns_.end(), [&](const auto& c) { return !in.has_column(c); });
  };
  if (!open_ended_ || !other.open_ended_) {
    const auto here = missing(*this, other), there = missing(other, *this);
    const bool more = here != other.columns_.end();
    if (more || there != columns_.end())
      fail(Exit::data, "E_DATA_COLUMN",
           cat(other.name(), ":1: ", more ? "has" : "lacks", " a column '", printable(more ? *here : *there),
               "', unlike ", name(), ", which has: ", printable(join(columns_, ", "))),
           "files that are read as one table have the same columns");
  }
  const size_t before = columns_.size();
  for (const std::string& c : other.columns_) {
    if (!has_column(c)) columns_.push_back(c);
  }
  if (columns_.size() > before) {  // adds absent cells for the new columns to the existing rows
    SpillVector<Cell> wider;
    for (int64_t r = 0; r < rows(); ++r) {
      wider.append({cells_.data() + static_cast<size_t>(r) * before, before});
      wider.resize(wider.size() + columns_.size() - before);
    }
    cells_ = std::move(wider);
  }
  std::vector<size_t> to;
  for (const std::string& c : other.columns_) to.push_back(column(c));
  const size_t shift = text_.size();
  for (int64_t r = 0; r < other.rows(); ++r) {
    const size_t start = cells_.size();
    cells_.resize(start + columns_.size());
    for (size_t c = 0; c < to.size(); ++c) {
      cells_[start + to[c]] = other.cell(r, c);
      if (!cells_[start + to[c]].in_file) cells_[start + to[c]].begin += shift;
    }
    lines_.push_back(other.line(r));
    files_.push_back(static_cast<int32_t>(names_.size()));
  }
  text_.append(other.text_);
  names_.push_back(other.name());
  sources_.push_back(other.sources_[0]);
  notes_.insert(notes_.end(), other.notes_.begin(), other.notes_.end());
  skipped_.insert(skipped_.end(), other.skipped_.begin(), other.skipped_.end());
}

bool Table::has_column(const std::string& column) const {
  return std::find(columns_.begin(), columns_.end(), column) != columns_.end();
}

size_t Table::column(const std::string& column, const std::string& hint) const {
  const auto at = std::find(columns_.begin(), columns_.end(), column);
  if (at != columns_.end()) return static_cast<size_t>(at - columns_.begin());
  const std::string near = nearest(column, columns_), delimiter = delimiter_hint(columns_);
  fail(Exit::data, "E_DATA_COLUMN",
       cat(name(), ":1: no column '", printable(column), "'; the file has: ", printable(join(columns_, ", "))),
       !delimiter.empty() ? delimiter
       : !near.empty()    ? cat("did you mean '", printable(near), "'?")
       : !hint.empty()    ? hint
                          : "name one of these; columns of a file without a header by their numbers, from 0");
}

const Table::Cell& Table::cell(int64_t row, size_t column) const {
  check(row >= 0 && row < rows() && column < columns_.size(), "Table: cell out of range");
  return cells_[static_cast<size_t>(row) * columns_.size() + column];
}

bool Table::has(int64_t row, size_t column) const { return cell(row, column).kind != Kind::absent; }

std::string_view Table::bytes(int64_t row, const Cell& cell) const {
  const std::string_view from =
      cell.in_file ? sources_[static_cast<size_t>(file(row))].text() : std::string_view(text_.data(), text_.size());
  return from.substr(cell.begin, cell.size);
}

std::string_view Table::text(int64_t row, size_t column) const {
  const Cell& c = cell(row, column);
  if (c.kind != Kind::text && c.kind != Kind::literal) {
    fail(Exit::data, "E_DATA_JSON",
         cat(where(row), ": key '", printable(columns_[column]), "' ",
             c.kind == Kind::absent ? "is missing or null" : "holds an array or object, not text"));
  }
  return bytes(row, c);
}

std::string_view Table::json(int64_t row, size_t column) const {
  const Cell& c = cell(row, column);
  check(c.kind == Kind::structure, "Table::json: not a structure");
  return bytes(row, c);
}

void Table::replace(size_t column, const std::map<std::string, std::string>& texts) {
  std::map<std::string, size_t> placed;
  for (int64_t r = 0; r < rows(); ++r) {
    Cell& c = cells_[static_cast<size_t>(r) * columns_.size() + column];
    if (c.kind != Kind::text && c.kind != Kind::literal) continue;
    const auto found = texts.find(std::string(bytes(r, c)));
    if (found == texts.end()) continue;
    const auto [at, fresh] = placed.emplace(found->second, text_.size());
    if (fresh) text_.append(found->second);
    c.place = character_of(r, c);
    c.begin = at->second;
    c.size = static_cast<uint32_t>(found->second.size());
    c.kind = Kind::text;
    c.in_file = false;
  }
}

void Table::set_lists(size_t column, std::string name, const std::vector<std::string>& lists) {
  for (int64_t r = 0; r < rows(); ++r) {
    const std::string& list = lists[static_cast<size_t>(r)];
    Cell& c = cells_[static_cast<size_t>(r) * columns_.size() + column];
    c.place = character_of(r, c);
    c.begin = text_.size();
    c.size = static_cast<uint32_t>(list.size());
    c.kind = Kind::structure;
    c.in_file = false;
    text_.append(list);
  }
  columns_[column] = std::move(name);
}

std::string Table::where(int64_t row) const {
  const std::string& name = names_[static_cast<size_t>(file(row))];
  return line(row) == 0 ? name : cat(name, ":", line(row));
}

// Returns the position of a cell. For a text in the file, the position is stored in bytes and converted to characters
// here. For other texts it is stored in characters.
std::string Table::where(int64_t row, size_t column) const {
  const Cell& c = cell(row, column);
  return c.place == 0 ? where(row) : cat(where(row), ":", character_of(row, c));
}

uint32_t Table::character_of(int64_t row, const Cell& c) const {
  if (!c.in_file || c.place == 0) return c.place;
  const std::string_view before = sources_[static_cast<size_t>(file(row))].text().substr(0, c.begin);
  std::string_view line = before.substr(before.find_last_of("\r\n") + 1);  // npos + 1 is 0
  line = without_byte_order_mark(line);
  return static_cast<uint32_t>(count_code_points(line.substr(0, c.place - 1)) + 1);
}

}  // namespace amp
