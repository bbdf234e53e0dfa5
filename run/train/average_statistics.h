// Recomputes running statistics for averaged weights, as torch.optim.swa_utils.update_bn does.
#pragma once

#include "data/dataset.h"
#include "trainer/compile/session.h"
#include "trainer/loop/trainer.h"

namespace amp {

// Makes one pass over the training data in training mode with the session's weights. Each statistic becomes the mean
// over the micro-batches, all weighted alike. Requires a session on the CPU. Returns the number of micro-batches; 0 if
// the model has no running statistics, and then no data are read.
int64_t average_statistics(Session& session, const TrainerConfig& config, const Dataset& data);

}  // namespace amp
