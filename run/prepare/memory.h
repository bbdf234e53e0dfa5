// The memory of a training run: the estimate before anything is allocated, and the error when memory runs out.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "backend/plugin.h"
#include "run/data/data.h"
#include "trainer/loop/trainer.h"

namespace amp {

struct DeviceSpec;
struct RunSpec;

struct MemoryBill {
  std::string device;                // description
  int64_t total = 0;                 // bytes of training
  int64_t weights = 0;               // bytes of the weights, part of total
  std::string text;                  // MemoryEstimate::text()
  std::vector<std::string> largest;  // tensors
  // Host bytes to write and compare the exported file, after training's memory is freed: the weights of the file and
  // the trained ones, or those of the Session that runs the file.
  int64_t export_check = 0;
  std::optional<PluginMemory> device_memory;  // of a GPU only
  std::optional<int64_t> room;                // available bytes, if the CPU's limit is below the machine's memory
  // The levels of recomputation: a description and the total bytes of each.
  std::vector<std::pair<std::string, int64_t>> choices;
};
MemoryBill memory_bill(const SessionOptions& options, const SourceGraph& g, const TrainerConfig& config,
                       const TrainData& data);

// --memory_budget: the part that is left for activations becomes options.activation_budget. E_OOM if no level of
// recomputation fits. --gradient_checkpointing: uses the smallest budget.
void keep_budget(SessionOptions& options, const DeviceSpec& device, const SourceGraph& g, const TrainerConfig& config,
                 const TrainData& data);

// Checks the estimate against the known limit before anything is allocated; E_OOM if it does not fit.
void require_room(const SessionOptions& options, const SourceGraph& g, const TrainerConfig& config,
                  const TrainData& data);

// Rethrows an error. For E_OOM on a GPU it adds the estimate and which batch size would have fitted into the free
// memory: another process took memory, or the estimate was wrong.
[[noreturn]] void fail_for_memory(const Error& e, const SourceGraph& g, const SessionOptions& options,
                                  const TrainerConfig& config, const TrainData& data);

}  // namespace amp
