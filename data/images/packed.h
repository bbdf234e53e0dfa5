// Files that hold many images of one size, with their labels in them or in a file beside them: MNIST's IDX, CIFAR's
// binaries. Each kind is one file in this folder with one row; files are known by their names, plain or gzip. An image
// in such a file has a path of its own, FILE#17, counted from 0. Errors: exit 5, with file and byte or image.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "data/images/image.h"
#include "data/table.h"

namespace amp {

struct PackedImages {
  int64_t count = 0, width = 0, height = 0, channels = 1;
  bool planes = false;            // a channel after the other, else a pixel's side by side
  int64_t first = 0, stride = 0;  // bytes before the first image's pixels, and from one image to the next
  FileBytes bytes = {};

  int64_t size() const { return width * height * channels; }                                 // bytes of an image
  const uint8_t* pixels(int64_t i) const { return bytes.bytes.get() + first + i * stride; }  // of image i
  Image image(int64_t i) const;
};

struct PackedLabels {
  std::vector<int64_t> ids;          // a class an image
  std::vector<std::string> classes;  // their names, or their numbers
};

struct PackedKind {
  std::string name;                       // "IDX"
  bool (*called)(std::string_view file);  // by a file's name, without folder and .gz
  PackedImages (*images)(FileBytes bytes, const std::string& name);
  int64_t (*count)(const std::string& path);  // without reading the pixels where that can be
  // file: of labels; empty: where the kind has them. column: which, where an image has several.
  PackedLabels (*labels)(const std::string& path, const std::string& file, const std::string& column);
};

// At namespace scope of the kind's file: `const PackedRegistration registered{{...}};`
struct PackedRegistration {
  PackedRegistration(PackedKind kind);
};

const std::vector<const PackedKind*>& packed_kinds();       // by name
const PackedKind* packed_kind_of(const std::string& path);  // by its name; null: none
// Of FILE#17, where FILE is called as such files are.
struct PackedPlace {
  std::string file;
  int64_t index = 0;
};
std::optional<PackedPlace> packed_place(const std::string& path);

PackedImages read_packed(const std::string& path);

struct PackedColumns {
  std::string path, label;
  bool labelled = true;
  std::string label_files = {};  // one for each file of images; empty: found
};
// One file or several (data/text_file.h): columns path and, when labelled, label, a class's name.
Table packed_table(const std::string& names, const PackedColumns& columns);
// The classes in the order of their numbers, those without an image too.
std::vector<std::string> packed_classes(const std::string& names, const PackedColumns& columns);

}  // namespace amp
