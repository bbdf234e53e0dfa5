// Reads CSV (RFC 4180) and TSV.
//
// CSV: a quoted field may contain doubled quotes and line breaks. Lines end with LF, CRLF or CR. A byte order mark at
// the start of a row is dropped; empty lines are skipped. A first line "sep=;" (Excel's) names the delimiter and is not
// a row; --delimiter overrides it.
//
// TSV: files such as GLUE's have quotes in plain text, spreadsheets write RFC 4180. The parser first reads lines
// without quoting. If all have the same number of fields, lines are rows; fields are unquoted if all quotes of the file
// are valid RFC 4180, otherwise quotes are text. If lines differ, RFC 4180 applies. If that fails as well and columns
// are requested by number, each line only needs those columns.
#include <algorithm>
#include <deque>

#include "base/error.h"
#include "base/text.h"
#include "base/utf8.h"
#include "data/reader.h"

namespace amp {

namespace {

class DelimitedParser {
 public:
  DelimitedParser(std::string_view bytes, char delimiter, const TableOptions& options, TableBuilder& out)
      : bytes_(bytes), delimiter_(delimiter), options_(options), out_(out) {
    if (const char named = separator_line(bytes)) {
      if (!options.delimiter) delimiter_ = named;
      at_ = bytes.find_first_of("\r\n");
      skip_line_end();
    }
  }

  // Reads all rows. quoted: fields are as in RFC 4180. Otherwise a field ends at the next delimiter or line end, and is
  // unquoted if `unquote` is set. least > 0: each row needs this many fields and may have more.
  void run(bool quoted, bool unquote, size_t least = 0) {
    if (least > 0) out_.rows_may_lack_columns();
    bool named = false;
    std::vector<std::string_view> fields;
    while (next_row_left(quoted, unquote, named, fields)) {
      if (!named) {
        named = true;
        const bool header = has_header(fields);
        for (size_t i = 0; !header && i < fields.size(); ++i) out_.columns().push_back(std::to_string(i));
        if (header) {
          out_.columns().assign(fields.begin(), fields.end());
          continue;
        }
      }
      if (least == 0 && fields.size() != out_.columns().size()) {
        out_.try_row(row_line_, [&] { ragged(fields.size()); });
        continue;
      }
      for (size_t i = out_.columns().size(); i < fields.size(); ++i) out_.columns().push_back(std::to_string(i));
      out_.add_row(row_line_, fields, places_);
    }
  }

  // Properties of the lines when they are read without quoting.
  struct Plain {
    bool rectangular = true;   // all have as many fields as the first, except rows that may be skipped
    bool quotes_text = false;  // a field has quotes that are not valid RFC 4180
    // Number of fields that each line needs to contain the columns requested by number. 0: a line has fewer fields, or
    // columns are requested by name.
    size_t least = 0;
  };
  Plain plain() {
    Plain out;
    std::vector<std::string_view> fields;
    std::string unused;
    size_t width = 0;
    int64_t uneven = 0;
    while (next_row(false, false, fields)) {
      if (width == 0) {
        width = fields.size();
        out.least = has_header(fields) ? 0 : columns_wanted();
      }
      if (fields.size() < out.least) out.least = 0;
      uneven += fields.size() != width;
      out.rectangular = uneven <= options_.most_skipped;
      for (const std::string_view f : fields)
        out.quotes_text = out.quotes_text || (f.find('"') != std::string::npos && !unquoted(f, unused));
    }
    return out;
  }

  // Returns whether RFC 4180 gives all rows the same number of fields, without an error.
  bool quoted_is_rectangular() {
    std::vector<std::string_view> fields;
    size_t width = 0;
    try {
      while (next_row(true, false, fields)) {
        if (width == 0) width = fields.size();
        if (fields.size() != width) return false;
      }
    } catch (const Error&) {
      return false;
    }
    return true;
  }

 private:
  // Returns 1 + the largest requested column number; 0 if columns are requested by name.
  size_t columns_wanted() const {
    size_t out = 0;
    for (const std::string& c : options_.wanted) {
      if (c.empty() || c.size() > 6 || c.find_first_not_of("0123456789") != std::string::npos) return 0;
      out = std::max(out, static_cast<size_t>(std::stoi(c)) + 1);
    }
    return out;
  }

  // Returns whether the first row names the columns. If all columns are requested by number, it does so only if the row
  // contains these numbers.
  bool has_header(const std::vector<std::string_view>& first) const {
    if (!options_.header) return false;
    const auto is_number = [](const std::string& c) {
      return !c.empty() && c.find_first_not_of("0123456789") == std::string::npos;
    };
    const auto named = [&](const std::string& c) { return std::find(first.begin(), first.end(), c) != first.end(); };
    const std::vector<std::string>& w = options_.wanted;
    return w.empty() || !std::all_of(w.begin(), w.end(), is_number) || std::all_of(w.begin(), w.end(), named);
  }

  // Reads the next row and skips rows whose quotes are not valid. named: the row with the names of the columns has been
  // read; that row cannot be skipped.
  bool next_row_left(bool quoted, bool unquote, bool named, std::vector<std::string_view>& fields) {
    while (true) {
      try {
        return next_row(quoted, unquote, fields);
      } catch (const Error& e) {
        if (!named) throw;
        out_.skip(e, row_line_);
        // The quote may belong to the text, and the lines after it may be rows. So reading continues after the line in
        // which the row begins.
        at_ = row_start_;
        line_ = row_line_;
        while (!at_line_end()) ++at_;
        skip_line_end();
      }
    }
  }

  bool at_end() const { return at_ >= bytes_.size(); }
  bool at_line_end() const { return at_end() || bytes_[at_] == '\n' || bytes_[at_] == '\r'; }

  void skip_line_end() {
    if (at_end()) return;
    at_ += bytes_.substr(at_, 2) == "\r\n" ? 2 : 1;
    begin_line();
  }

  void begin_line() {
    ++line_;
    line_start_ = at_;
  }

  struct Place {
    int64_t line;
    size_t line_start, at;
  };
  Place here() const { return {line_, line_start_, at_}; }
  std::string where(const Place& p) const {  // returns "t.csv:3:14"; characters count from 1
    return cat(out_.name(), ":", p.line, ":", count_code_points(bytes_.substr(p.line_start, p.at - p.line_start)) + 1);
  }

  void require_size(const Place& start) const {
    if (at_ - start.at <= kMaxField) return;
    fail(Exit::data, "E_DATA_CSV", cat(where(start), ": a field of more than ", kMaxField, " bytes begins here"),
         "is a quote left open, or the delimiter another (`delimiter`)?");
  }

  // Reads a row. Fields point into the file, or into unescaped_ until the next row.
  bool next_row(bool quoted, bool unquote, std::vector<std::string_view>& fields) {
    fields.clear();
    unescaped_.clear();
    places_.clear();
    while (true) {
      if (!at_end() && bytes_[at_] == kByteOrderMark[0] && bytes_.substr(at_, 3) == kByteOrderMark) at_ += 3;
      if (at_end()) return false;
      if (!at_line_end()) break;
      skip_line_end();
    }
    row_line_ = line_;
    row_start_ = at_;
    while (true) {
      const size_t begin = at_, kept = unescaped_.size();
      const bool first_line = line_ == row_line_;
      if (quoted && !at_end() && bytes_[at_] == '"') {
        fields.push_back(quoted_field());
      } else {
        fields.push_back(plain_field(unquote));
      }
      places_.push_back(first_line ? place_of(begin, unescaped_.size() > kept) : 0);
      if (at_line_end()) break;
      ++at_;  // skips the delimiter
    }
    skip_line_end();
    return true;
  }

  // Returns the position of byte `at` in the row's first line, as TableBuilder::add_row() takes it. copied: the field
  // is not a part of the file.
  uint32_t place_of(size_t at, bool copied) const {
    const size_t before = at - row_start_;
    return static_cast<uint32_t>((copied ? count_code_points(bytes_.substr(row_start_, before)) : before) + 1);
  }

  std::string_view plain_field(bool unquote) {
    const Place start = here();
    const char* p = bytes_.data() + at_;
    const char* const end = bytes_.data() + bytes_.size();
    const char delimiter = delimiter_;
    while (p != end && *p != delimiter && *p != '\n' && *p != '\r') ++p;
    at_ = static_cast<size_t>(p - bytes_.data());
    require_size(start);
    const std::string_view field = bytes_.substr(start.at, at_ - start.at);
    std::string text;
    if (!unquote || !unquoted(field, text)) return field;
    return text.size() + 2 == field.size() ? field.substr(1, text.size()) : kept(std::move(text));
  }

  std::string_view kept(std::string text) { return unescaped_.emplace_back(std::move(text)); }

  // Returns true if the whole field is one quoted string whose inner quotes are doubled.
  static bool unquoted(std::string_view field, std::string& out) {
    if (field.size() < 2 || field.front() != '"' || field.back() != '"') return false;
    const std::string_view inner = field.substr(1, field.size() - 2);
    std::string text;
    for (size_t i = 0; i < inner.size(); ++i) {
      if (inner[i] == '"' && (i + 1 == inner.size() || inner[++i] != '"')) return false;
      text += inner[i];
    }
    out = text;
    return true;
  }

  std::string_view quoted_field() {
    const Place opened = here();
    const size_t begin = ++at_;
    std::string text;  // used once a quote is doubled
    size_t copied = begin;
    bool doubled = false;
    while (true) {
      if (at_end()) {
        fail(Exit::data, "E_DATA_CSV", cat(where(opened), ": a quote is opened here and never closed"),
             "double a quote that belongs to the text, or save the table as .tsv, where a quote alone is text");
      }
      require_size(opened);
      const char c = bytes_[at_++];
      if (c == '"') {
        if (at_end() || bytes_[at_] != '"') break;
        text += bytes_.substr(copied, at_ - copied);
        copied = ++at_;
        doubled = true;
      } else if (c == '\n' || (c == '\r' && (at_end() || bytes_[at_] != '\n'))) {
        begin_line();
      }
    }
    const size_t end = at_ - 1;
    if (!at_line_end() && bytes_[at_] != delimiter_) {
      fail(Exit::data, "E_DATA_CSV",
           cat(where(here()), ": text follows the quote that closes the field opened at ", where(opened)),
           "double a quote that belongs to the text, or save the table as .tsv, where a quote alone is text");
    }
    if (!doubled) return bytes_.substr(begin, end - begin);
    text += bytes_.substr(copied, end - copied);
    return kept(std::move(text));
  }

  [[noreturn]] void ragged(size_t fields) const {
    const std::string other = delimiter_hint(out_.columns());
    fail(Exit::data, "E_DATA_CSV",
         cat(out_.name(), ":", row_line_, ": ", fields, " fields, the first row has ", out_.columns().size(), ": ",
             printable(join(out_.columns(), ", "))),
         other.empty() ? "quote a field that holds the delimiter, or name the delimiter with `delimiter`" : other);
  }

  std::string_view bytes_;
  char delimiter_;
  const TableOptions& options_;
  TableBuilder& out_;
  std::vector<uint32_t> places_;       // for each field of the row: its position in the row's first line
  std::deque<std::string> unescaped_;  // fields of the row with doubled quotes
  size_t at_ = 0, line_start_ = 0, row_start_ = 0;
  int64_t line_ = 1, row_line_ = 1;
};

void parse(std::string_view bytes, char usual, Quoting quoting, const TableOptions& options, TableBuilder& out) {
  const char delimiter = options.delimiter ? options.delimiter : usual;
  bool quoted = quoting == Quoting::rfc4180;
  const bool automatic = quoting == Quoting::automatic;
  bool unquote = false;
  size_t least = 0;
  if (automatic) {
    const auto plain = DelimitedParser(bytes, delimiter, options, out).plain();
    quoted = !plain.rectangular;
    unquote = !plain.quotes_text;
    if (quoted && plain.least > 0 && !DelimitedParser(bytes, delimiter, options, out).quoted_is_rectangular()) {
      quoted = false;
      least = plain.least;
    }
  }
  DelimitedParser(bytes, delimiter, options, out).run(quoted, unquote, least);
}

const ReaderRegistration csv{
    {"csv", {".csv"}, "fields between commas", [](std::string_view bytes, const TableOptions& o, TableBuilder& out) {
       parse(bytes, ',', o.quoting == Quoting::automatic ? Quoting::rfc4180 : o.quoting, o, out);
     }}};
const ReaderRegistration tsv{
    {"tsv", {".tsv"}, "fields between tabs", [](std::string_view bytes, const TableOptions& o, TableBuilder& out) {
       parse(bytes, '\t', o.quoting, o, out);
     }}};

}  // namespace

}  // namespace amp
