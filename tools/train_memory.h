// A training run's memory: what it takes, before anything is allocated and when it was too much after all.
#pragma once

#include "precision/decide.h"
#include "tools/cli/options.h"
#include "tools/train_data.h"
#include "trainer/trainer.h"

namespace amp {

// Before anything is allocated: the bill (shown by a dry run), and on a GPU whether there is room.
void check_memory(const cli::Options& opts, const SourceGraph& g, const PrecisionPlan& plan,
                  const TrainerConfig& config, const TrainData& data, bool show);

// Memory that ran out nevertheless: somebody else took it, or the bill was wrong. Says what would have fitted into what
// was left.
[[noreturn]] void fail_for_memory(const Error& e, const SourceGraph& g, const SessionOptions& options,
                                  const TrainerConfig& config, const TrainData& data);

}  // namespace amp
