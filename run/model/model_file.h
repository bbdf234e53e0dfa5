// Finds the model file that a path names: the path itself, or a file in that folder.
#pragma once

#include <string>
#include <vector>

#include "base/log.h"

namespace amp {

struct RunSpec;

// Returns a path that is not a folder unchanged. In a folder: model.onnx, else onnx/model.onnx (Optimum, Hugging Face),
// else the only .onnx file of these two folders. For a folder of the Hugging Face cache (models--ORG--NAME), looks in
// its snapshot. Logs the file. Exit::usage E_RUN: there is none, or several; the hint names the next step.
std::string model_file(const std::string& path, const Log& log);

// Applies model_file() to the model and the teacher.
RunSpec with_model_files(RunSpec spec, const Log& log);

}  // namespace amp
