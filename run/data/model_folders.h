// Folders with files that belong to a model: tokenizer, preprocessor_config.json, chat template.
#pragma once

#include <string>
#include <vector>

namespace amp {

// Returns the folder of the model file, or `model` itself if it is a folder. If that folder is named "onnx", also
// returns its parent.
std::vector<std::string> folders_of_model(const std::string& model);

}  // namespace amp
