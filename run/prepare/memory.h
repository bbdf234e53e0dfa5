// A training run's memory: what it takes, before anything is allocated and when it was too much after all.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "backend/plugin.h"
#include "run/data/data.h"
#include "trainer/loop/trainer.h"

namespace amp {

struct MemoryBill {
  std::string device;                // in words
  int64_t total = 0;                 // bytes of training
  int64_t weights = 0;               // bytes of the weights, part of total
  std::string text;                  // MemoryEstimate's
  std::vector<std::string> largest;  // tensors
  // Host bytes of writing and comparing the exported file, after training's memory is freed: the file's weights and
  // the trained ones, or those of the Session that runs the file.
  int64_t export_check = 0;
  std::optional<PluginMemory> device_memory;  // of a GPU
  std::optional<int64_t> room;                // on the CPU, where less than the machine's memory is allowed
  // What computing more of the forward pass again would take: in words, bytes in all.
  std::vector<std::pair<std::string, int64_t>> choices;
};
MemoryBill memory_bill(const SessionOptions& options, const SourceGraph& g, const TrainerConfig& config,
                       const TrainData& data);

// --memory_budget: what it leaves for activations becomes options.activation_budget; E_OOM where no choice fits.
// --gradient_checkpointing: the smallest budget.
void keep_budget(SessionOptions& options, const RunSpec& spec, const SourceGraph& g, const TrainerConfig& config,
                 const TrainData& data);

// Before anything is allocated, where the limit is known: E_OOM when there is no room.
void require_room(const SessionOptions& options, const SourceGraph& g, const TrainerConfig& config,
                  const TrainData& data);

// Memory that ran out nevertheless: somebody else took it, or the bill was wrong. Says what would have fitted into what
// was left.
[[noreturn]] void fail_for_memory(const Error& e, const SourceGraph& g, const SessionOptions& options,
                                  const TrainerConfig& config, const TrainData& data);

}  // namespace amp
