// The ONNX library's checker, as export uses it.
#pragma once

#include <string>

#include "importer/read/doc.h"

namespace amp {

// Each returns the checker's complaint in one line; an empty string if it accepts the model.

// newer: the file's IR version is newer than the linked library's.
std::string checker_says(const std::string& path, bool newer);

// Infers shapes in place, so `proto` gains value_info: check_model's full check would copy the model with its weights.
std::string checker_says(onnx::ModelProto& proto);

// Checks the imported file.
std::string checker_says(const ModelDoc& doc);

}  // namespace amp
