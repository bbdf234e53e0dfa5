// Adapters after training, in the forms of files: for the slots of a base (onnx_adapter.h), or as a PEFT folder.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "importer/adapter/onnx_adapter.h"
#include "importer/adapter/peft_folder.h"
#include "importer/adapter/slots.h"
#include "importer/surgery/lora.h"

namespace amp {

// Trained values: index of a SourceValue -> fp32 tensor.
using TrainedValues = std::map<int, HostTensor>;

// Throws E_LORA_EXPORT (Exit::usage) if an .onnx_adapter or a slot cannot represent the adapters: DoRA, maps that are
// not products, and weights that nodes with different factors read.
void require_slots(const std::vector<LoraAdapter>& adapters, const std::vector<AdapterSite>& sites);

// Returns one pair per adapted map, in the map's type. A has the A's of the map's parts side by side [K, R]. B is a
// block matrix [R, N] of their B's, multiplied by the adapter's scale. Throws E_EXPORT_RANGE (Exit::numerical) for
// fp16.
OnnxAdapter slot_values(const std::vector<LoraAdapter>& adapters, const std::vector<AdapterSite>& sites,
                        const TrainedValues& values);

struct PeftNames {
  std::string model_type;              // the model type in config.json or genai_config.json, as "phi3"; empty: unknown
  std::string base;                    // base_model_name_or_path
  const PeftAdapter* start = nullptr;  // the folder that training began with; its settings are kept
};

// Returns the adapters under PyTorch's names of their modules. Parts that PyTorch computes in one packed module become
// one pair: with their common A if they share it, else with the A's stacked and a block matrix. An adapter of several
// parts that are separate modules in PyTorch becomes a pair per module. Throws E_LORA_EXPORT (Exit::usage) for maps
// that are not products, and for DoRA on some of the parts of a packed module.
PeftAdapter peft_values(const std::vector<LoraAdapter>& adapters, const std::vector<AdapterSite>& sites,
                        const TrainedValues& values, const PeftNames& names);

}  // namespace amp
