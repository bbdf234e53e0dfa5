#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "data/table_builder.h"

namespace amp {

namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

class DelimitedParser {
 public:
  DelimitedParser(std::string_view bytes, char delimiter, TableBuilder& out)
      : bytes_(bytes), delimiter_(delimiter), out_(out) {}

  // quoted: RFC 4180 fields; otherwise a field ends at the next delimiter or line end, and is unquoted when unquote.
  void run(bool quoted, bool unquote, bool header) {
    bool named = false;
    std::vector<std::string> fields;
    while (next_row(quoted, unquote, fields)) {
      if (!named) {
        named = true;
        for (size_t i = 0; !header && i < fields.size(); ++i) out_.columns().push_back(std::to_string(i));
        if (header) {
          out_.columns() = fields;
          continue;
        }
      }
      if (fields.size() != out_.columns().size()) ragged(fields.size());
      out_.begin_row(row_line_);
      for (const std::string& f : fields) out_.add_text(f);
    }
  }

  // Whether every line, quotes taken as text, has as many fields as the first.
  bool rectangular() {
    std::vector<std::string> fields;
    size_t width = 0;
    while (next_row(false, false, fields)) {
      if (width == 0) width = fields.size();
      if (fields.size() != width) return false;
    }
    return true;
  }

 private:
  bool at_end() const { return at_ >= bytes_.size(); }
  bool at_line_end() const { return at_end() || bytes_[at_] == '\n' || bytes_[at_] == '\r'; }

  void skip_line_end() {
    if (at_end()) return;
    at_ += bytes_.substr(at_, 2) == "\r\n" ? 2 : 1;
    ++line_;
  }

  bool next_row(bool quoted, bool unquote, std::vector<std::string>& fields) {
    fields.clear();
    while (true) {
      if (bytes_.substr(at_, 3) == kByteOrderMark) at_ += 3;
      if (at_end()) return false;
      if (!at_line_end()) break;
      skip_line_end();
    }
    row_line_ = line_;
    while (true) {
      fields.emplace_back();
      if (quoted && !at_end() && bytes_[at_] == '"') {
        quoted_field(fields.back());
      } else {
        plain_field(unquote, fields.back());
      }
      if (at_line_end()) break;
      ++at_;  // the delimiter
    }
    skip_line_end();
    return true;
  }

  void plain_field(bool unquote, std::string& out) {
    const size_t start = at_;
    while (!at_line_end() && bytes_[at_] != delimiter_) ++at_;
    const std::string_view field = bytes_.substr(start, at_ - start);
    if (!unquote || !unquoted(field, out)) out = field;
  }

  // True when the whole field is one quoted string whose inner quotes are doubled.
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

  void quoted_field(std::string& out) {
    const int64_t opened = line_;
    ++at_;
    while (true) {
      if (at_end()) {
        fail(Exit::data, "E_DATA_CSV", cat(out_.name(), ":", opened, ": a quote is opened here and never closed"),
             "double a quote that belongs to the text, or save the table as .tsv, where a quote alone is text");
      }
      const char c = bytes_[at_++];
      if (c == '"') {
        if (at_end() || bytes_[at_] != '"') break;
        ++at_;
      } else if (c == '\n' || (c == '\r' && (at_end() || bytes_[at_] != '\n'))) {
        ++line_;
      }
      out += c;
    }
    if (!at_line_end() && bytes_[at_] != delimiter_) {
      fail(Exit::data, "E_DATA_CSV",
           cat(out_.name(), ":", line_, ": text follows the quote that closes the field opened on line ", opened),
           "double a quote that belongs to the text, or save the table as .tsv, where a quote alone is text");
    }
  }

  [[noreturn]] void ragged(size_t fields) const {
    fail(Exit::data, "E_DATA_CSV",
         cat(out_.name(), ":", row_line_, ": ", fields, " fields, the first row has ", out_.columns().size(), ": ",
             printable(join(out_.columns(), ", "))),
         "quote a field that holds the delimiter, or name the delimiter with --delimiter");
  }

  std::string_view bytes_;
  char delimiter_;
  TableBuilder& out_;
  size_t at_ = 0;
  int64_t line_ = 1, row_line_ = 1;
};

}  // namespace

void parse_delimited(std::string_view bytes, char delimiter, Quoting quoting, bool header, TableBuilder& out) {
  bool quoted = quoting == Quoting::rfc4180;
  const bool automatic = quoting == Quoting::automatic;
  if (automatic) quoted = !DelimitedParser(bytes, delimiter, out).rectangular();
  DelimitedParser(bytes, delimiter, out).run(quoted, automatic, header);
}

}  // namespace amp
