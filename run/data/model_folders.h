// Folders with files that belong to a model: tokenizer, preprocessor_config.json, chat template.
#pragma once

#include <string>
#include <vector>

namespace amp {

// Returns the model's own folder (or the path, if that is a folder) and, for a folder named "onnx", also its parent.
std::vector<std::string> folders_of_model(const std::string& model);

}  // namespace amp
