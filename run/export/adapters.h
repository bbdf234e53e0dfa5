// Files of adapters beside an exported model, by the setting `lora_export`.
#pragma once

#include <string>
#include <vector>

#include "importer/write/export.h"
#include "run/prepare/prepared_model.h"

namespace amp {

struct OutputSpec;

// Returns the maps that get slots in the exported model: all matrix products, except heads without an adapter.
// Empty if `lora_export` does not name slots.
std::vector<AdapterSite> slots_to_add(const OutputSpec& output, const Trainable& trainable);

// The result of an export.
struct WrittenModel {
  std::string model;    // the exported file; the base if only files of adapters were written
  std::string adapter;  // value of `adapter` that turns `model` into the trained model; empty: none is needed
};

// Writes what `lora_export` names besides the model at `path`, which need not exist: "<path without
// .onnx>.onnx_adapter", slots_file() and the folder peft_folder_of() (run/folder/run_files.h). tensors: all parameters
// of the session. base: the file that was imported.
WrittenModel export_adapters(const OutputSpec& output, const PreparedModel& ready,
                             const std::vector<TrainedTensor>& tensors, const std::string& base,
                             const std::string& path);

// False if `lora_export` names only files of adapters and the run has adapters.
bool writes_model(const OutputSpec& output, const Trainable& trainable);

}  // namespace amp
