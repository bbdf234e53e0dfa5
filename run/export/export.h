// A model written without training: the weights of a run's checkpoints, or a model file again in another precision.
#pragma once

#include <optional>
#include <string>

#include "base/log.h"
#include "run/spec/spec.h"

namespace amp {

struct ExportedRun {
  int64_t step = 0;                  // whose weights they are
  std::string model;                 // the file that the run began with
  std::optional<double> difference;  // of the file's outputs from the trained graph's, on rows of the run's data
};

// From the run's folder and its model file alone: finished, stopped or still going on. weights: last, best, ema,
// ema:DECAY; precision: fp32, fp16, mixed. Exit::usage E_RUN (no run there), E_RUN_MODEL (its model file is gone),
// E_EXPORT_WEIGHTS (the run has no such weights); Exit::checkpoint.
ExportedRun export_run(const std::string& folder, const std::string& weights, const std::string& precision,
                       const std::string& out, const Log& log = {});

// The same as a Hugging Face checkpoint, in `folder` (run/model/build.h: write_checkpoint); tokenizer files that lie beside
// the run's model go with it. Exit::usage E_NOT_CONVERTED, too.
ExportedRun export_checkpoint(const std::string& run, const std::string& weights, const std::string& folder,
                              const Log& log = {});

void export_file(const RunSpec& spec, const std::string& out,
                 const Log& log = {});  // spec.model as spec.export_precision

}  // namespace amp
