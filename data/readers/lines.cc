// Reads plain lines: one row per non-empty line, in the column "text". A .txt whose first line has a tab is read as a
// table.
#include "base/error.h"
#include "base/text.h"
#include "base/utf8.h"
#include "data/reader.h"

namespace amp {

namespace {

void read_lines(std::string_view bytes, const TableOptions&, TableBuilder& out) {
  out.columns() = {"text"};
  bytes = without_byte_order_mark(bytes);
  const char* const begin = bytes.data();
  for (int64_t line = 1; !bytes.empty(); ++line) {
    const size_t end = std::min(bytes.find('\n'), bytes.size());
    std::string_view text = bytes.substr(0, end);
    bytes.remove_prefix(std::min(end + 1, bytes.size()));
    if (text.ends_with('\r')) text.remove_suffix(1);
    if (text.find_first_not_of(" \t") == std::string_view::npos) continue;
    const auto check_size = [&] {
      if (text.size() > kMaxField)
        fail(Exit::data, "E_DATA_LINE",
             cat(out.name(), ":", line, ": the line has ", text.size(), " bytes, at most ", kMaxField),
             "break it into lines of one text each");
    };
    if (!out.try_row(line, check_size)) continue;
    out.begin_row(line, static_cast<size_t>(text.data() - begin));
    out.add_text(text);
  }
}

const ReaderRegistration lines{{"lines", {}, "a text a line, in the column 'text'", read_lines}};

void read_txt(std::string_view bytes, const TableOptions& options, TableBuilder& out) {
  const std::string_view first = bytes.substr(0, bytes.find('\n'));
  const bool table = separator_line(bytes) ? true
                     : options.delimiter   ? first.find(options.delimiter) != std::string_view::npos
                                           : first.find('\t') != std::string_view::npos;
  reader_named(table ? "tsv" : "lines").read(bytes, options, out);
}

const ReaderRegistration txt{
    {"txt", {".txt"}, "fields between tabs, or without any in its first line plain lines", read_txt}};

}  // namespace

}  // namespace amp
