// OutputSpec: settings of the run's folder, its checkpoints and the exported model.
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
  std::string serve = "off";                      // port on 127.0.0.1; 0: any free port
  Default<std::string> export_precision{"fp32"};  // if not requested: the file's types (export_types())
  std::string export_weights = "last", lora_export = "merge";
  Default<bool> export_raw_rows{false};  // adds nodes that preprocess a table's raw rows
  bool verify_export = true;

  // Returns whether `lora_export` names a form: merge, keep, slots, adapter or peft.
  bool exports_lora(const std::string& form) const {
    return ("," + lora_export + ",").find("," + form + ",") != std::string::npos;
  }
  // False if a run with adapters writes only files of adapters.
  bool lora_exports_model() const { return exports_lora("merge") || exports_lora("keep") || exports_lora("slots"); }

  // Returns the value of ExportOptions::precision. "file" keeps the types of the imported file; fp32 converts
  // only if it was requested.
  std::string export_types() const { return export_precision.asked() ? *export_precision : "file"; }
};

}  // namespace amp
