// Writes models without training: the weights of a run's checkpoints, or a model file in another precision.
#pragma once

#include <optional>
#include <string>

#include "base/log.h"

namespace amp {

struct RunSpec;

struct ExportedRun {
  int64_t step = 0;     // step of the exported weights
  std::string model;    // the run's original model file
  std::string written;  // the exported model file; that of the adapter, or PEFT's folder, if no model was written
  // Largest difference between the outputs of the file and of the trained graph, on rows of the run's data.
  std::optional<double> difference;
};

// Returns the model file that `out` names: an existing folder, or a path that ends in a slash, gets "model.onnx" and
// the files of adapters as a run's folder does. Throws E_OUTPUT_FOREIGN (Exit::usage) if the folder has one of these
// files, because it would get the names of another export.
std::string export_target(const std::string& out);

// Writes the model of a run from the run's folder and its original model file. The run may be finished, stopped or in
// progress. weights: last, best, ema, ema:DECAY. precision: fp32, fp16, mixed, file.
// Throws Exit::usage: E_RUN if the folder holds no run, E_RUN_MODEL if its model file is missing, E_EXPORT_WEIGHTS if
// the run has no such weights. Throws Exit::checkpoint if the checkpoint cannot be read.
ExportedRun export_run(const std::string& folder, const std::string& weights, const std::string& precision,
                       const std::string& out, const Log& log = {});

// Exports a run as a Hugging Face checkpoint into `folder` (write_checkpoint() of run/model/build.h), with the
// tokenizer files that are stored beside the run's model. Throws the errors of export_run(), and E_NOT_CONVERTED
// (Exit::usage).
ExportedRun export_checkpoint(const std::string& run, const std::string& weights, const std::string& folder,
                              const Log& log = {});

// Writes spec.model.model in the types of spec.output.export_precision.
void export_file(const RunSpec& spec, const std::string& out, const Log& log = {});

}  // namespace amp
