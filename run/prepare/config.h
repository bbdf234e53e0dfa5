// A training run's settings, resolved.
#pragma once

#include "precision/decide.h"
#include "run/data/data.h"
#include "run/spec/spec.h"
#include "trainer/loop/trainer.h"

namespace amp {

// The plan's loss scale, or what loss_scale says in its place.
LossScaleConfig base_loss_scale(const RunSpec& spec, const PrecisionPlan& plan);

TrainerConfig trainer_config(const RunSpec& spec, const PrecisionPlan& plan, const Objective& objective,
                             const TrainData& data);

}  // namespace amp
