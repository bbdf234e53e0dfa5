// Low-rank adapters of a model, by the settings `lora`, `adapter` and `lora_export`.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "importer/adapter/peft_folder.h"
#include "importer/adapter/slots.h"
#include "importer/read/import.h"
#include "importer/surgery/dropout.h"
#include "importer/surgery/lora.h"
#include "run/spec/job.h"

namespace amp {

struct RunSpec;

// The nodes that make_trainable() (surgery.h) inserts: dropout, then LoRA adapters.
struct Trainable {
  std::vector<DropoutSpot> dropout;
  std::vector<LoraAdapter> lora;
  std::vector<AdapterSite> sites;            // the maps that may have slots; empty without adapters
  std::shared_ptr<const PeftAdapter> start;  // the PEFT folder that `adapter` names; null: none
  int32_t base_sum = 0;      // base_checksum() if files of adapters are exported; 0: other weights train
  double lora_lr_ratio = 1;  // learning rate of B divided by that of A
};

// Adds adapters for training if `lora` or `adapter` asks for them, with the values of `adapter`. Fills in the members
// of `out` that concern adapters, and adds messages to `lines`. Throws E_LORA and E_LORA_EXPORT (Exit::usage), and the
// errors of read_adapter() and FittedAdapter (importer/adapter/).
void add_adapters(const RunSpec& spec, Imported& model, Trainable& out, std::vector<std::string>& lines,
                  const Log& log);

// Applies an adapter to a model that is not trained. path: a value of `adapter`; empty: does nothing.
void apply_adapter(const std::string& path, SourceGraph& graph, const Log& log);

}  // namespace amp
