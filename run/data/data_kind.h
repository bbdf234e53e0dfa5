// The kind of data that a path names.
#pragma once

#include <cstdint>
#include <string>

namespace amp {

struct DataSpec;

enum class DataKind : uint8_t { text, images, features, tensors };

// Returns images for a folder, image files and packed images (CIFAR, IDX), and for a table if `image_column` is given.
// Returns tensors for their file extensions, and features for a table if settings name feature columns and no text
// columns. All other paths are text.
DataKind data_kind(const DataSpec& data, const std::string& path);

}  // namespace amp
