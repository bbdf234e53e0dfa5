// A training run's settings, from the flags.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "precision/decide.h"
#include "tools/cli/options.h"
#include "tools/train_data.h"
#include "trainer/trainer.h"

namespace amp {

// Flags that name a file which the run reads, with the file: ("--train", "train.csv"). A run.json that is given back as
// --config is none: it was read already.
std::vector<std::pair<std::string, std::string>> input_files(const cli::Options& opts);

TrainerConfig trainer_config(const cli::Options& opts, const PrecisionPlan& plan, const Objective& objective,
                             const TrainData& data);

}  // namespace amp
