// Checks of exports: a trial before training with the initial weights, and the comparison at the end. Possible failures
// occur at the start; at the end a failed check does not lose the model.
#pragma once

#include <new>
#include <optional>
#include <string>

#include "base/error.h"
#include "run/export/weights.h"
#include "trainer/loop/trainer.h"

namespace amp {

struct OutputSpec;
struct ScheduleSpec;
struct PreparedRun;

// Exports and checks the untrained model as the run will at its end, and removes the file. Throws the same errors with
// a hint.
// Above 256 MB of weights an fp32 export is not tried: it converts nothing, and such an export can fail only for lack
// of space (require_disk).
// Returns true if the outputs were compared and agree; then a difference after training is caused by rounding.
bool try_export(PreparedRun& run, Session& session, const std::string& folder);
// Returns the memory of that trial in bytes: the trained weights and the file, or its import and the graph that runs
// it. 0: no trial. weights: their bytes.
int64_t trial_bytes(const OutputSpec& output, const ScheduleSpec& schedule, int64_t max_steps, int64_t weights);

// Fails with E_DISK (Exit::storage) if the folder's file system has too little space for the run's checkpoints and
// model. checkpoint: bytes of one checkpoint.
void require_disk(const PreparedRun& run, int64_t checkpoint, const std::string& folder);
int64_t checkpoint_bytes(const Session& session, const TrainerConfig& config);

// Result of the check of a written file.
struct ExportCheck {
  std::optional<double> difference;  // nullopt: not compared
  std::optional<Error> error;        // the file differs
};
// Compares the file with the reference outputs; the session that computed them may be gone. A check that is impossible
// (out of memory) is a warning. A difference is a warning too if the untrained model agreed.
ExportCheck check_export(const PreparedRun& run, const ExportReference& reference, const std::string& path,
                         bool agreed_before);

// Calls f(). Logs a failure as the warning "W_EXPORT_CHECK: WHAT: ..." and returns false.
template <class F>
bool warn_of_failure(const Log& log, const std::string& what, const F& f) {
  try {
    f();
    return true;
  } catch (const Error& e) {
    log.warning(cat("W_EXPORT_CHECK: ", what, ": ", e.fact(), e.hint().empty() ? "" : "; " + e.hint()));
  } catch (const std::bad_alloc&) {
    log.warning(cat("W_EXPORT_CHECK: ", what, ": out of memory"));
  }
  return false;
}

}  // namespace amp
