// What an export needs beside a run's checkpoints and its model file: written when the run begins, so that whatever
// becomes of the training data, a run that was stopped can be exported too.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "run/prepare/prepare.h"

namespace amp {

inline constexpr const char* kExportRecord = "export.safetensors";

struct ExportRecord {
  RunSpec spec;
  DataFacts facts;
  std::map<std::string, std::string> metadata;  // that the model gets once it is trained
  std::vector<std::string> trained;             // parameters that a checkpoint holds
  Tensors batch;                                // to compare the file's outputs on
  Tensors fixed;                                // values of inputs that were bound (run/model/fixed_inputs.h)
};

std::map<std::string, std::string> model_record(const PreparedRun& run);  // ModelRecord's metadata

void write_export_record(const std::string& folder, const PreparedRun& run, const Session& session);
// Exit::usage E_RUN when there is none; Exit::checkpoint E_RUN_RECORD when it is damaged.
ExportRecord read_export_record(const std::string& folder);

}  // namespace amp
