// Reads IDX, the format of MNIST, Fashion-MNIST, KMNIST and EMNIST: gray bytes (N, H, W) in NAME-images-idx3-ubyte,
// labels in NAME-labels-idx1-ubyte. The header is 0, 0, type, number of dimensions, then each size as a big-endian
// number.
#include <algorithm>
#include <array>
#include <filesystem>

#include "base/error.h"
#include "base/text.h"
#include "data/images/decoder.h"
#include "data/images/packed.h"
#include "data/text_file.h"

namespace amp {

namespace {

constexpr uint8_t kBytes = 8;  // type code of unsigned bytes

[[noreturn]] void refuse_idx(const std::string& name, const std::string& why, const std::string& hint = {}) {
  fail(Exit::data, "E_IDX", cat("'", printable(name), "'", why), hint);
}

std::string hex(std::string_view bytes) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string out;
  for (const char c : bytes) {
    const auto v = static_cast<unsigned char>(c);
    out += {digits[v / 16], digits[v % 16], ' '};
  }
  return out.empty() ? out : out.substr(0, out.size() - 1);
}

// Checks the header and returns the sizes of the dimensions. rank: the expected number of dimensions.
std::vector<int64_t> read_header(std::string_view bytes, const std::string& name, uint8_t rank) {
  const std::string what = rank == 1 ? "labels (1 dimension)" : "images (3 dimensions)";
  if (bytes.size() < 4)
    refuse_idx(name, cat(" has ", bytes.size(), " bytes: no IDX header"), "fetch the file again: it was cut short");
  const std::string head = cat("0: begins with ", hex(bytes.substr(0, 4)));
  if (bytes[0] != 0 || bytes[1] != 0)
    refuse_idx(name, cat(", byte ", head, ", IDX files with 00 00"), "is it another kind of file, or damaged?");
  const auto type = static_cast<uint8_t>(bytes[2]), dimensions = static_cast<uint8_t>(bytes[3]);
  if (type != kBytes)
    refuse_idx(
        name,
        cat(", byte ", head, ": its numbers are of type ", hex(bytes.substr(2, 1)), ", ", what, " are bytes (08)"),
        "give other numbers as tensors: .npy, .npz or .safetensors");
  if (dimensions != rank)
    refuse_idx(name,
               cat(", byte ", head, ": ", int{dimensions}, dimensions == 1 ? " dimension, " : " dimensions, ", what,
                   " were expected"),
               dimensions == 1 ? "it holds labels; name the file of images, they are found beside it"
               : rank == 1     ? "it holds images; name the file of labels"
                               : "give other arrays as tensors: .npy, .npz or .safetensors");
  const size_t size = 4 + 4 * size_t{rank};
  if (bytes.size() < size)
    refuse_idx(name, cat(" is cut short in its header, at byte ", bytes.size()), "fetch the file again");
  std::vector<int64_t> out;
  for (size_t d = 0; d < rank; ++d) {
    int64_t n = 0;
    for (size_t i = 0; i < 4; ++i) n = n << 8 | static_cast<unsigned char>(bytes[4 + 4 * d + i]);
    out.push_back(n);
  }
  if (out[0] == 0) fail(Exit::data, "E_DATA_EMPTY", cat("'", printable(name), "' holds no ", what));
  return out;
}

void require_size(const std::string& name, int64_t has, int64_t header, int64_t items, int64_t each, const char* what) {
  const int64_t wants = header + items * each;
  if (has == wants) return;
  if (has > wants)
    refuse_idx(name,
               cat(", byte ", wants, ": ", has - wants, " bytes follow the ", with_thousands(items), " ", what,
                   " of its header"),
               "fetch the file again: it is damaged, or another was appended to it");
  refuse_idx(name,
             cat(" is cut short at byte ", with_thousands(has), ", in ", what, " ",
                 with_thousands((has - header) / each), " (from 0) of ", with_thousands(items), " in its header"),
             "fetch the file again");
}

PackedImages parse_idx(FileBytes bytes, const std::string& name) {
  const std::vector<int64_t> dims = read_header(bytes.text(), name, 3);
  PackedImages out;
  out.count = dims[0];
  out.height = dims[1];
  out.width = dims[2];
  EncodedImage{{}, name}.check_size(out.width, out.height);
  out.first = 16;
  out.stride = out.size();
  require_size(name, bytes.size, out.first, out.count, out.stride, "image");
  out.bytes = std::move(bytes);
  return out;
}

int64_t count_images(const std::string& path) { return read_header(read_head(path, 16), path, 3)[0]; }

// Returns the file of labels for a file of images: train-labels-idx1-ubyte for train-images-idx3-ubyte, plain or .gz.
// Throws E_IDX if it does not exist.
std::string find_labels(const std::string& images) {
  const std::filesystem::path path(without_gz(images));
  std::string file = path.filename().string();
  static constexpr std::array<std::array<const char*, 2>, 3> names{
      {{"images", "labels"}, {"idx3", "idx1"}, {"Images", "Labels"}}};
  for (const auto& [from, to] : names) {
    if (const size_t at = file.rfind(from); at != std::string::npos)
      file.replace(at, std::string_view(from).size(), to);
  }
  const std::string plain = (path.parent_path() / file).string();
  if (plain != without_gz(images)) {
    for (const std::string& name : {plain, plain + ".gz"}) {
      if (path_exists(name)) return name;
    }
  }
  refuse_idx(images,
             cat(" has no file of labels beside it",
                 plain == without_gz(images) ? "" : cat(": '", printable(plain), "', plain or .gz")),
             "name it with `train_labels`, or `val_labels` for `val`");
}

PackedLabels read_idx_labels(const std::string& path, const std::string& given, const std::string&) {
  const int64_t images = count_images(path);
  const std::string name = given.empty() ? find_labels(path) : given;
  const FileBytes bytes = read_text_file(name);
  const int64_t count = read_header(bytes.text(), name, 1)[0];
  require_size(name, bytes.size, 8, count, 1, "label");
  if (count != images)
    refuse_idx(
        name,
        cat(" holds ", with_thousands(count), " labels, '", printable(path), "' ", with_thousands(images), " images"),
        "are they of the same set? `train_labels` and `val_labels` name others");
  PackedLabels out;
  for (const char c : bytes.text().substr(8)) out.ids.push_back(static_cast<unsigned char>(c));
  const int64_t last = *std::max_element(out.ids.begin(), out.ids.end());
  for (int64_t i = 0; i <= last; ++i) out.classes.push_back(std::to_string(i));
  return out;
}

const PackedRegistration idx_row{{"IDX",
                                  [](std::string_view file) {
                                    return file.ends_with("idx3-ubyte") || file.ends_with("idx1-ubyte") ||
                                           file.ends_with(".idx");
                                  },
                                  parse_idx, count_images, read_idx_labels}};

}  // namespace

}  // namespace amp
