// What kind of data a name stands for.
#pragma once

#include <string>

#include "run/spec/spec.h"

namespace amp {

enum class DataKind : uint8_t { text, images, features, tensors };

// images: a folder, image files, a table when --image_column names its paths. tensors by extension; features: a table
// some of whose columns are named as features; else text.
DataKind data_kind(const RunSpec& spec, const std::string& path);

}  // namespace amp
