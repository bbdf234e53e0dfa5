#include "data/reader.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
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

const TableReader& reader_of(const std::string& path) {
  refuse_columnar(path);
  const std::string name = without_gz(path);
  const size_t dot = name.rfind('.');
  const std::string extension = dot == std::string::npos ? "" : name.substr(dot);
  for (const TableReader* r : table_readers()) {
    if (std::find(r->extensions.begin(), r->extensions.end(), extension) != r->extensions.end()) return *r;
  }
  fail(Exit::usage, "E_FILE_TYPE", cat("'", printable(path), "' has no extension that names a text table"),
       cat("text: ", join(all_extensions(), ", "),
           ", or any of these packed by gzip; another with --data_format; "
           "images: a folder that is there, IDX (idx3-ubyte) or CIFAR's binaries, or a table with --image_column; "
           "tensors: .safetensors, .npz, .npy"));
}

}  // namespace amp
