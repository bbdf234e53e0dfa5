// Finds the model file that a path names: the path itself, or a file in that folder.
#pragma once

#include <string>
#include <vector>

#include "base/log.h"

namespace amp {

struct RunSpec;

// Returns the model file that `path` names, and logs it. A path that is not a folder is returned unchanged. In a
// folder, the file is the first of these that exists: the decoder that genai_config.json names, model.onnx,
// onnx/model.onnx (Optimum, Hugging Face), decoder_model.onnx without an encoder beside it, the only .onnx file of
// these two folders. In a folder of the Hugging Face cache (models--ORG--NAME) its snapshot is searched. Throws E_RUN
// (Exit::usage) if there is no such file, or several; the hint names the next step.
std::string model_file(const std::string& path, const Log& log);

// Value of `adapter` for no adapter, where a run's folder would choose its own.
inline constexpr const char* kNoAdapter = "none";

// Replaces the paths of the model and the teacher by the files that model_file() returns. Beside a genai_config.json,
// the default of `max_seq_len` becomes the model's context length, but at most 1024. kNoAdapter becomes "".
RunSpec with_model_files(RunSpec spec, const Log& log);

}  // namespace amp
