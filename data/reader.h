// TableReader: parses one kind of text file into rows and columns. Each reader is one file in data/readers/ that
// registers itself (docs/adding_a_reader.md); no other code depends on the kind of file.
//
// A reader gets the whole file (mapped if large), already unpacked from gzip and checked to be UTF-8. Errors have exit
// code 5 and name file:line, and the column if the line is not enough.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "data/table_builder.h"

namespace amp {

// Largest size in bytes of a cell or of a line of JSON. Anything larger is a mistake in the file.
constexpr size_t kMaxField = 16u << 20;

struct TableReader {
  std::string name;                     // value of --data_format
  std::vector<std::string> extensions;  // such as ".csv"; ".gz" may follow
  std::string what;                     // description for messages
  void (*read)(std::string_view bytes, const TableOptions& options, TableBuilder& out);
};

// Used at namespace scope of the reader's file: `const ReaderRegistration registered{{...}};`
struct ReaderRegistration {
  ReaderRegistration(TableReader reader);
};

const std::vector<const TableReader*>& table_readers();  // all readers, sorted by name
const TableReader& reader_named(const std::string& name);
// Throws E_DATA_COLUMNAR (exit 5) for Parquet, Arrow, Feather and ORC, which it recognizes by extension or first bytes.
void refuse_columnar(const std::string& path, std::string_view bytes = {});
// Returns the delimiter that a first line "sep=;" (Excel's) names; 0 if the first line is not of this form.
char separator_line(std::string_view bytes);
// Returns a hint that names --delimiter if the only column's name looks like several names, such as "a;b;y"; else "".
std::string delimiter_hint(const std::vector<std::string>& columns);
// Returns the reader for the file's extension. Throws E_FILE_TYPE (Exit::usage) for an unknown extension.
const TableReader& reader_of(const std::string& path);

}  // namespace amp
