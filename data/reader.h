// A reader: how one kind of text file becomes rows and columns. Each is one file in data/readers/ that registers itself
// (docs/adding_a_reader.md); nothing outside them knows their kinds.
//
// A reader sees a whole file (mapped where it is large), unpacked where it is gzip, and in UTF-8. Errors: exit 5, with
// file:line, and the column where one line says little.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "data/table_builder.h"

namespace amp {

constexpr size_t kMaxField = 16u << 20;  // bytes of a cell, of a line of JSON: more is a mistake, and would be copied

struct TableReader {
  std::string name;                     // as --data_format has it
  std::vector<std::string> extensions;  // ".csv"; in front of ".gz" too
  std::string what;                     // for people
  void (*read)(std::string_view bytes, const TableOptions& options, TableBuilder& out);
};

// At namespace scope of the reader's file: `const ReaderRegistration registered{{...}};`
struct ReaderRegistration {
  ReaderRegistration(TableReader reader);
};

const std::vector<const TableReader*>& table_readers();  // by name
const TableReader& reader_named(const std::string& name);
// E_DATA_COLUMNAR (exit 5) for Parquet, Arrow, Feather and ORC, by extension or by their bytes.
void refuse_columnar(const std::string& path, std::string_view bytes = {});
// The delimiter that a first line "sep=;" names (Excel's); 0: the first line is no such line.
char separator_line(std::string_view bytes);
// The names of columns as one name, "a;b;y": a hint at --delimiter with the character between them; else "".
std::string delimiter_hint(const std::vector<std::string>& columns);
const TableReader& reader_of(const std::string& path);  // by extension; none: Exit::usage, E_FILE_TYPE

}  // namespace amp
