// Running statistics of averaged weights, which no training step has seen: torch.optim.swa_utils.update_bn.
#pragma once

#include "run/prepare/prepare.h"

namespace amp {

// One pass over the training data, in training form, by the weights that the session holds: each statistic becomes the
// mean over the micro-batches, all of the same weight. In a session on the CPU. Returns the micro-batches; 0: the model
// has no running statistics, and nothing was read.
int64_t average_statistics(Session& session, const TrainerConfig& config, const Dataset& data);

}  // namespace amp
