// ExportRecord: the data that an export needs in addition to a run's checkpoints and model file. It is written when the
// run begins, so that a stopped run can be exported without its training data.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "run/prepare/prepared_run.h"
#include "run/spec/spec.h"

namespace amp {

struct ExportRecord {
  RunSpec spec;
  DataFacts facts;
  std::map<std::string, std::string> metadata;  // metadata of the trained model
  std::vector<std::string> trained;             // names of the parameters that a checkpoint holds
  Tensors batch;                                // inputs for comparing the file's outputs
  Tensors fixed;  // values of the inputs that are bound as constants (run/model/fixed_inputs.h)
};

std::map<std::string, std::string> model_record(const PreparedRun& run);  // the model metadata that ModelRecord defines

// trained: names of the trained parameters. tensors: a batch, of which ExportRecord::batch keeps the inputs.
void write_export_record(const std::string& folder, const PreparedRun& run, const std::vector<std::string>& trained,
                         const Tensors& tensors);
// Reads the record. Throws E_RUN (Exit::usage) if there is none, and E_RUN_RECORD (Exit::checkpoint) if it is damaged.
ExportRecord read_export_record(const std::string& folder);

}  // namespace amp
