// Reads CIFAR-10 and CIFAR-100 in their binary form (data_batch_1.bin, train.bin). A record holds one image: a byte
// with its class (for CIFAR-100 two bytes, coarse and fine), then the 32 x 32 values of red, those of green and those
// of blue. Names of classes are read from files in the same folder: batches.meta.txt, fine_label_names.txt,
// coarse_label_names.txt.
#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/text.h"
#include "base/utf8.h"
#include "data/images/packed.h"
#include "data/text_file.h"

namespace amp {

namespace {

constexpr int64_t kSide = 32, kPixels = 3 * kSide * kSide;

[[noreturn]] void refuse_cifar(const std::string& name, const std::string& why, const std::string& hint = {}) {
  fail(Exit::data, "E_CIFAR", cat("'", printable(name), "'", why), hint);
}

// Returns the index of the first record with a label byte out of range; -1 if all are in range.
int64_t wrong_record(std::string_view bytes, int64_t labels) {
  const int64_t record = labels + kPixels;
  for (int64_t r = 0; r < static_cast<int64_t>(bytes.size()) / record; ++r) {
    const auto label = [&](int64_t i) {
      return static_cast<unsigned char>(bytes[static_cast<size_t>(r * record + i)]);
    };
    if (labels == 1 ? label(0) >= 10 : label(0) >= 20 || label(1) >= 100) return r;
  }
  return -1;
}

// Returns the number of label bytes before the pixels of a record. Throws E_CIFAR for a file of another form.
int64_t labels_of(std::string_view bytes, const std::string& name) {
  if (bytes.empty()) fail(Exit::data, "E_DATA_EMPTY", cat("'", printable(name), "' is empty"));
  const auto size = static_cast<int64_t>(bytes.size());
  int64_t labels = 0, wrong = 0;
  for (const int64_t n : {1, 2}) {
    if (size % (n + kPixels)) continue;
    labels = n;
    wrong = wrong_record(bytes, n);
    if (wrong < 0) return n;
  }
  if (labels == 0)
    refuse_cifar(name,
                 cat(" has ", with_thousands(size),
                     " bytes, which are no whole records of 3,073 (CIFAR-10) or 3,074 (CIFAR-100)"),
                 "fetch the file again: it was cut short; or is it another kind of file?");
  refuse_cifar(name,
               cat(", byte ", wrong * (labels + kPixels), ": image ", wrong, " has a label that CIFAR-",
                   labels == 1 ? "10" : "100", " lacks"),
               "is it another kind of file, or damaged?");
}

PackedImages parse_cifar(FileBytes bytes, const std::string& name) {
  PackedImages out;
  out.first = labels_of(bytes.text(), name);
  out.width = out.height = kSide;
  out.channels = 3;
  out.planes = true;
  out.stride = out.first + kPixels;
  out.count = bytes.size / out.stride;
  out.bytes = std::move(bytes);
  return out;
}

// Reads one name per line. If the file does not exist or does not have `count` names, returns the numbers 0, 1, ... as
// names.
std::vector<std::string> class_names(const std::string& images, const std::string& file, size_t count) {
  const std::string path = (std::filesystem::path(images).parent_path() / file).string();
  std::vector<std::string> out;
  if (path_exists(path)) {
    for (std::string line : split(without_byte_order_mark(read_text_file(path).text()), '\n')) {
      if (line.ends_with('\r')) line.pop_back();
      if (!line.empty() && std::find(out.begin(), out.end(), line) == out.end()) out.push_back(line);
    }
  }
  if (out.size() == count) return out;
  out.clear();
  for (size_t i = 0; i < count; ++i) out.push_back(std::to_string(i));
  return out;
}

PackedLabels read_cifar_labels(const std::string& path, const std::string& file, const std::string& column) {
  if (!file.empty()) refuse_cifar(path, " holds its labels itself", "leave `train_labels` and `val_labels` out");
  const PackedImages images = parse_cifar(read_text_file(path), path);
  const bool hundred = images.first == 2, coarse = hundred && column == "coarse";
  PackedLabels out;
  for (int64_t i = 0; i < images.count; ++i)
    out.ids.push_back(images.pixels(i)[hundred && !coarse ? -1 : -images.first]);
  out.classes = !hundred ? class_names(path, "batches.meta.txt", 10)
                : coarse ? class_names(path, "coarse_label_names.txt", 20)
                         : class_names(path, "fine_label_names.txt", 100);
  return out;
}

const PackedRegistration cifar_row{
    {"CIFAR", [](std::string_view file) { return file.ends_with(".bin"); }, parse_cifar,
     [](const std::string& path) { return parse_cifar(read_text_file(path), path).count; }, read_cifar_labels}};

}  // namespace

}  // namespace amp
