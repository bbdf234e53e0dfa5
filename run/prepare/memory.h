// The memory of a training run: the estimate before anything is allocated, and the error when memory runs out.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "backend/plugin.h"
#include "run/data/data.h"
#include "trainer/compile/memory_estimate.h"
#include "trainer/loop/trainer.h"

namespace amp {

struct DeviceSpec;
struct RunSpec;

struct MemoryBill {
  std::string device;       // description of the device
  MemoryEstimate training;  // of the steps
  // Bytes of a checkpoint's copy, in addition to `training` while it is written, if so many are free. 0: none is made.
  int64_t checkpoint_copy = 0;
  int64_t evaluation = 0;  // bytes while the validation data are evaluated during training; 0: they are not
  std::optional<PluginMemory> device_memory;  // set only for a GPU
  std::optional<int64_t> room;  // available bytes; set only if a limit of the CPU is below the machine's memory
  // The levels of recomputation that need less than `training`: a description and the total bytes of each.
  std::vector<std::pair<std::string, int64_t>> choices;
};
MemoryBill memory_bill(const SessionOptions& options, const SourceGraph& g, const TrainerConfig& config,
                       const TrainData& data);

// Sets options.activation_budget to the part of `memory_budget` that is left for activations. Throws E_OOM if no level
// of recomputation fits. With `gradient_checkpointing` as much as possible is recomputed. Returns how many bytes of the
// budget are left; nullopt without a budget.
std::optional<int64_t> keep_budget(SessionOptions& options, const DeviceSpec& device, const SourceGraph& g,
                                   const TrainerConfig& config, const TrainData& data);

// Throws E_OOM if the estimate does not fit into the known limit, before anything is allocated.
void require_room(const SessionOptions& options, const SourceGraph& g, const TrainerConfig& config,
                  const TrainData& data);

// Rethrows an error. To E_OOM on a GPU it adds the estimate and the batch size that would have fitted into the free
// memory. Such an error occurs if another process took memory, or if the estimate was wrong.
[[noreturn]] void fail_for_memory(const Error& e, const SourceGraph& g, const SessionOptions& options,
                                  const TrainerConfig& config, const TrainData& data);

}  // namespace amp
