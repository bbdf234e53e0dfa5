// The model file that a path names: the path itself, or a file in the folder that it is.
#pragma once

#include <string>
#include <vector>

#include "base/log.h"
#include "run/spec/spec.h"

namespace amp {

// A path that is no folder is returned as it is. In a folder: model.onnx, else onnx/model.onnx (Optimum, Hugging Face),
// else the only .onnx file of these two places; a folder of the Hugging Face cache (models--ORG--NAME) is its snapshot.
// Says which file it took (info). Exit::usage E_RUN: there is none, or several, with what to do about it.
std::string model_file(const std::string& path, const Log& log);

// spec.model and spec.teacher as model_file() has them.
RunSpec with_model_files(RunSpec spec, const Log& log);

// Whether the folder is one that a run writes.
bool is_run_folder(const std::string& path);

// Folders whose files belong to a model: the one that it is in (or is), and the one above where that is called "onnx".
std::vector<std::string> folders_of_model(const std::string& model);

}  // namespace amp
