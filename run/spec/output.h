// Settings of the run's folder, its checkpoints and the exported model.
#pragma once

#include <cstdint>
#include <string>

#include "run/spec/default.h"

namespace amp {

struct OutputSpec {
  std::string output_dir = "run";
  std::string save_strategy = "auto";
  int64_t save_steps = 0, save_total_limit = 2;
  std::string resume = "none", resume_schedule = "auto";
  bool overwrite = false;
  int64_t logging_steps = 50;
  bool tensorboard = false;
  std::string serve = "off";                      // a port of 127.0.0.1; 0: a free one
  Default<std::string> export_precision{"fp32"};  // not asked for: the file's own types (export_types())
  std::string export_weights = "last", lora_export = "merge";
  bool export_raw_rows = false;  // of a table: nodes in front of the model
  bool verify_export = true;

  // ExportOptions::precision. "file" keeps the types of the imported file; fp32 converts only if it was asked for.
  std::string export_types() const { return export_precision.asked() ? *export_precision : "file"; }
};

}  // namespace amp
