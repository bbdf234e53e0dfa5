// Implements packed.h: the registry of PackedKinds, and tables with one row for each image of packed files (path
// FILE#17).
#include "data/images/packed.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "base/text.h"
#include "data/rows_by_name.h"
#include "data/table_builder.h"
#include "data/text_file.h"

namespace amp {

namespace {

std::vector<PackedKind>& packed_rows() {
  static std::vector<PackedKind> all;
  return all;
}

struct LabeledFile {
  std::string path;
  PackedLabels labels;  // empty if not requested
  int64_t count = 0;
};

std::vector<LabeledFile> files_of(const std::string& names, const PackedColumns& columns) {
  const std::vector<std::string> paths = files_named(names);
  std::vector<std::string> label_files(paths.size());
  if (!columns.label_files.empty()) label_files = files_named(columns.label_files);
  if (label_files.size() != paths.size())
    fail(Exit::usage, "E_USAGE",
         cat("'", printable(names), "' is ", paths.size(), " files of images, '", printable(columns.label_files), "' ",
             label_files.size(), " of labels"),
         "name a file of labels for each file of images, in their order");
  std::vector<LabeledFile> out;
  for (size_t i = 0; i < paths.size(); ++i) {
    const PackedKind* const kind = packed_kind_of(paths[i]);
    if (!kind)
      fail(Exit::usage, "E_FILE_TYPE",
           cat("'", printable(paths[i]), "' is not called as the others of '", printable(names), "'"),
           "name files of one kind");
    out.push_back({paths[i], {}, 0});
    if (columns.labeled) out.back().labels = kind->labels(paths[i], label_files[i], columns.label);
    out.back().count = columns.labeled ? static_cast<int64_t>(out.back().labels.ids.size()) : kind->count(paths[i]);
  }
  return out;
}

}  // namespace

PackedRegistration::PackedRegistration(PackedKind kind) { packed_rows().push_back(std::move(kind)); }

const std::vector<const PackedKind*>& packed_kinds() {
  static const std::vector<const PackedKind*> sorted = rows_by_name(packed_rows());
  return sorted;
}

const PackedKind* packed_kind_of(const std::string& path) {
  const std::string file = without_gz(std::filesystem::path(path).filename().string());
  for (const PackedKind* k : packed_kinds()) {
    if (k->called(file)) return k;
  }
  return nullptr;
}

std::optional<PackedPlace> packed_place(const std::string& path) {
  const size_t at = path.rfind('#');
  if (at == std::string::npos || !packed_kind_of(path.substr(0, at))) return std::nullopt;
  PackedPlace out{path.substr(0, at), 0};
  const auto [end, code] = std::from_chars(path.data() + at + 1, path.data() + path.size(), out.index);
  if (code != std::errc() || end != path.data() + path.size() || out.index < 0) return std::nullopt;
  return out;
}

PackedImages read_packed(const std::string& path) {
  const PackedKind* const kind = packed_kind_of(path);
  check(kind != nullptr, "read_packed: a file of another kind");
  return kind->images(read_text_file(path), path);
}

Image PackedImages::image(int64_t i) const {
  check(i >= 0 && i < count, "PackedImages: no such image");
  Image out(width, height, channels);
  const uint8_t* const from = pixels(i);
  if (!planes) {
    std::memcpy(out.data.data(), from, out.data.size());
    return out;
  }
  const int64_t area = width * height;
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t p = 0; p < area; ++p) out.data[static_cast<size_t>(p * channels + c)] = from[c * area + p];
  }
  return out;
}

Table packed_table(const std::string& names, const PackedColumns& columns) {
  TableBuilder out(names);
  out.columns() = {columns.path};
  if (columns.labeled) out.columns().push_back(columns.label);
  for (const LabeledFile& f : files_of(names, columns)) {
    for (int64_t i = 0; i < f.count; ++i) {
      const std::string path = cat(f.path, "#", i);
      out.begin_file(path);
      out.add_text(path);
      if (columns.labeled) out.add_text(f.labels.classes[static_cast<size_t>(f.labels.ids[static_cast<size_t>(i)])]);
    }
  }
  return out.finish();
}

std::vector<std::string> packed_classes(const std::string& names, const PackedColumns& columns) {
  std::vector<std::string> out;
  for (LabeledFile& f : files_of(names, columns)) {
    if (f.labels.classes.size() > out.size()) out = std::move(f.labels.classes);
  }
  return out;
}

}  // namespace amp
