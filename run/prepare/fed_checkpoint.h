// Checkpoints of sessions (run/steps/), whose batches the calling program feeds, and of runs from files. A session or
// a run from files can continue either kind. Settings of data, which a session does not have, are not compared.
#pragma once

#include <map>
#include <string>

#include "base/log.h"
#include "data/dataset.h"
#include "data/sampler.h"
#include "trainer/loop/checkpoint.h"

namespace amp {

// Leaves only those entries of a checkpoint's record and of a run's record that a session has too.
void drop_data_settings(std::map<std::string, std::string>& saved, std::map<std::string, std::string>& fixed);

// If a session wrote the checkpoint: compares the remaining settings, which throws E_CKPT_MISMATCH (Exit::checkpoint),
// and makes it a checkpoint of a run from these data with the record `fixed`. The run goes on in its own order of data,
// as if it had trained the checkpoint's steps. Other checkpoints are unchanged.
void adopt_fed_checkpoint(Checkpoint& checkpoint, const std::map<std::string, std::string>& fixed, const Dataset& data,
                          const SamplerOptions& sampler, const Log& log);

}  // namespace amp
