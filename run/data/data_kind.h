// The kind of data that a path names.
#pragma once

#include <cstdint>
#include <string>

namespace amp {

struct DataSpec;

enum class DataKind : uint8_t { text, images, features, tensors };

// Returns the kind of the data at `path`:
//   images    a folder, an image file, packed images (CIFAR, IDX), or a table if `image_column` is given
//   tensors   a file with an extension of tensor files, such as .npz
//   features  a table, if settings name feature columns and no text columns
//   text      everything else
DataKind data_kind(const DataSpec& data, const std::string& path);
// Fails for settings that name texts and a table of features, before a folder is read or written.
void require_one_kind(const DataSpec& data);

}  // namespace amp
