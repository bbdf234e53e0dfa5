// Implements reader.h: the registry of readers and their choice by extension.
#include "data/reader.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "base/error.h"
#include "base/near_path.h"
#include "base/text.h"
#include "base/utf8.h"
#include "data/rows_by_name.h"
#include "data/text_file.h"

namespace amp {

namespace {

std::vector<TableReader>& readers() {
  static std::vector<TableReader> all;
  return all;
}

std::vector<std::string> all_extensions() {
  std::vector<std::string> out;
  for (const TableReader* r : table_readers()) out.insert(out.end(), r->extensions.begin(), r->extensions.end());
  return out;
}

}  // namespace

ReaderRegistration::ReaderRegistration(TableReader reader) { readers().push_back(std::move(reader)); }

const std::vector<const TableReader*>& table_readers() {
  static const std::vector<const TableReader*> sorted = rows_by_name(readers());
  return sorted;
}

const TableReader& reader_named(const std::string& name) {
  for (const TableReader* r : table_readers()) {
    if (r->name == name) return *r;
  }
  bug(cat("no reader is called '", name, "'"));
}

char separator_line(std::string_view bytes) {
  bytes = without_byte_order_mark(bytes);
  std::string_view line = bytes.substr(0, bytes.find_first_of("\r\n"));
  if (line.size() == bytes.size()) return 0;
  if (line.size() > 2 && line.front() == '"' && line.back() == '"') line = line.substr(1, line.size() - 2);
  const bool named = line.size() == 5 && (line.starts_with("sep=") || line.starts_with("SEP="));
  const bool delimiter =
      named && line[4] != '"' && (line[4] == '\t' || std::ispunct(static_cast<unsigned char>(line[4])));
  return delimiter ? line[4] : '\0';
}

std::string delimiter_hint(const std::vector<std::string>& columns) {
  if (columns.size() != 1) return {};
  for (const auto& [c, name] : {std::pair{';', "semicolon"}, {'\t', "tab"}, {'|', "pipe"}, {',', "comma"}}) {
    if (columns[0].find(c) != std::string::npos)
      return cat("the names are one name here; if it is several, their delimiter is `delimiter` ", name);
  }
  return {};
}

const TableReader& reader_of(const std::string& path) {
  refuse_columnar(path);
  const std::string name = without_gz(path);
  const size_t dot = name.rfind('.');
  const std::string extension = dot == std::string::npos ? "" : name.substr(dot);
  for (const TableReader* r : table_readers()) {
    if (std::find(r->extensions.begin(), r->extensions.end(), extension) != r->extensions.end()) return *r;
  }
  const std::string near = near_path_hint(path);
  fail(Exit::usage, "E_FILE_TYPE", cat("'", printable(path), "' has no extension that names a text table"),
       cat(near, near.empty() ? "" : " ", "text: ", join(all_extensions(), ", "),
           ", or any of these packed by gzip; another with `data_format`; "
           "images: a folder that is there, IDX (idx3-ubyte) or CIFAR's binaries, or a table with `image_column`; "
           "tensors: .safetensors, .npz, .npy"));
}

}  // namespace amp
