// Prepares a run whose batches the calling program feeds: as prepare() (run/prepare/prepare.h), without data files and
// without an output folder.
#pragma once

#include <memory>

#include "run/prepare/prepare.h"
#include "run/steps/fed_data.h"

namespace amp {

struct FedRun {
  std::unique_ptr<PreparedRun> run;
  DataNeeds needs;          // inputs and labels that a batch must hold
  FedData* data = nullptr;  // owned by run->data
};

// samples_per_epoch: for schedules that depend on epochs, and for `epochs`. 0: the samples of all steps.
// Throws the errors of prepare(), and E_USAGE for settings that name data files, or if neither `max_steps` nor
// samples_per_epoch determines the number of steps.
FedRun prepare_fed(const RunSpec& spec, const Host& host, int64_t samples_per_epoch);

}  // namespace amp
