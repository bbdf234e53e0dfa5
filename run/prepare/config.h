// Resolves the settings of a training run into a TrainerConfig.
#pragma once

#include "precision/decide.h"
#include "run/data/data.h"
#include "trainer/loop/trainer.h"

namespace amp {

struct PrecisionSpec;
struct RunSpec;

// Returns the loss scale that `loss_scale` requests, else the plan's.
LossScaleConfig base_loss_scale(const PrecisionSpec& precision, const PrecisionPlan& plan);

TrainerConfig trainer_config(const RunSpec& spec, const PrecisionPlan& plan, const Objective& objective,
                             const TrainData& data);

}  // namespace amp
