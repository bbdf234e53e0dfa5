// The kind of data that a path names.
#pragma once

#include <cstdint>
#include <string>

namespace amp {

struct DataSpec;

enum class DataKind : uint8_t { text, images, features, tensors };

// images: a folder, image files, packed images (CIFAR, IDX), or a table if --image_column is given. tensors: by the
// file's extension. features: a table if settings name feature columns and no text columns. Otherwise text.
DataKind data_kind(const DataSpec& data, const std::string& path);

}  // namespace amp
