// Writes models without training: the weights of a run's checkpoints, or a model file in another precision.
#pragma once

#include <optional>
#include <string>

#include "base/log.h"

namespace amp {

struct RunSpec;

struct ExportedRun {
  int64_t step = 0;   // step of the exported weights
  std::string model;  // the run's original model file
  // largest difference between the outputs of the file and of the trained graph, on rows of the run's data
  std::optional<double> difference;
};

// Exports from the run's folder and its model file; the run may be finished, stopped or in progress. weights: last,
// best, ema, ema:DECAY; precision: fp32, fp16, mixed, file.
// Exit::usage E_RUN (no run in the folder), E_RUN_MODEL (its model file is missing), E_EXPORT_WEIGHTS (the run has no
// such weights); Exit::checkpoint.
ExportedRun export_run(const std::string& folder, const std::string& weights, const std::string& precision,
                       const std::string& out, const Log& log = {});

// Exports a run as a Hugging Face checkpoint into `folder` (write_checkpoint() of run/model/build.h), with the
// tokenizer files that are stored beside the run's model. Also Exit::usage E_NOT_CONVERTED.
ExportedRun export_checkpoint(const std::string& run, const std::string& weights, const std::string& folder,
                              const Log& log = {});

void export_file(const RunSpec& spec, const std::string& out,
                 const Log& log = {});  // writes spec.model.model in the types of spec.output.export_precision

}  // namespace amp
