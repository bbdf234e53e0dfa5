// Files that hold many images of one size, with labels in them or in another file: MNIST's IDX, CIFAR's binaries. Each
// kind is implemented by one file in this folder, which registers a PackedKind. Kinds are recognized by file name,
// plain or gzip. The path FILE#17 denotes the image with index 17, counted from 0. Errors have exit code 5 and name the
// file and the byte offset or the image.
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
  // true: an image stores all values of its first channel, then all of the next; false: channels are interleaved
  bool planes = false;
  int64_t first = 0, stride = 0;  // offset of the first pixels; bytes from one image to the next
  FileBytes bytes = {};

  int64_t size() const { return width * height * channels; }                                 // bytes per image
  const uint8_t* pixels(int64_t i) const { return bytes.bytes.get() + first + i * stride; }  // pixels of image i
  Image image(int64_t i) const;
};

struct PackedLabels {
  std::vector<int64_t> ids;          // class id of each image
  std::vector<std::string> classes;  // class names, or numbers as text
};

struct PackedKind {
  std::string name;                       // such as "IDX"
  bool (*called)(std::string_view file);  // matches a file name without folder and .gz
  PackedImages (*images)(FileBytes bytes, const std::string& name);
  int64_t (*count)(const std::string& path);  // number of images; avoids reading the pixels
  // Reads the labels of a file of images. file: the file of labels; empty: the kind's default. column: selects one kind
  // of label if images have several (CIFAR-100: "coarse", else fine).
  PackedLabels (*labels)(const std::string& path, const std::string& file, const std::string& column);
};

// Used at namespace scope of the kind's file: `const PackedRegistration registered{{...}};`
struct PackedRegistration {
  PackedRegistration(PackedKind kind);
};

const std::vector<const PackedKind*>& packed_kinds();       // all kinds, sorted by name
const PackedKind* packed_kind_of(const std::string& path);  // finds it by name; null: not a packed file
// The two parts of a path FILE#17: the file and the image's index.
struct PackedPlace {
  std::string file;
  int64_t index = 0;
};
std::optional<PackedPlace> packed_place(const std::string& path);

PackedImages read_packed(const std::string& path);

struct PackedColumns {
  std::string path, label;
  bool labeled = true;
  // names of label files, one per file of images; empty: found by the name of the file of images
  std::string label_files = {};
};
// Returns a table of the images in one file or several (data/text_file.h). Columns: path and, if labeled, label with
// the name of the class.
Table packed_table(const std::string& names, const PackedColumns& columns);
// Returns the classes in the order of their ids, including those without images.
std::vector<std::string> packed_classes(const std::string& names, const PackedColumns& columns);

}  // namespace amp
