// Checks of exports: a trial export before training with the initial weights, and a comparison of the final export with
// the trained graph. The trial finds failures early; a failed check after training does not discard the model.
#pragma once

#include <new>
#include <optional>
#include <string>

#include "base/error.h"
#include "run/export/weights.h"
#include "trainer/loop/trainer.h"

namespace amp {

struct PreparedRun;
struct RunSpec;

// Exports and checks the untrained model as the run will do at its end, and removes the file. Throws the errors of an
// export, with a hint.
// An fp32 export of more than 256 MB of weights is skipped: it converts nothing, so it can fail only for lack of disk
// space (require_disk).
// Returns true if the outputs were compared and agree. A difference after training is then caused by rounding.
bool try_export(PreparedRun& run, Session& session, const std::string& folder);
// The parts of try_export() that run for a model whose weights have so many bytes.
struct Trial {
  bool exports = false;   // the file is written
  bool compares = false;  // and compared
};
Trial trial_of(const RunSpec& spec, int64_t max_steps, int64_t weights);

// Throws E_DISK (Exit::storage) if the folder's file system has too little space for the run's checkpoints and model.
// checkpoint: bytes of one checkpoint.
void require_disk(const PreparedRun& run, int64_t checkpoint, const std::string& folder);
int64_t checkpoint_bytes(const Session& session, const TrainerConfig& config);

// Result of check_export().
struct ExportCheck {
  std::optional<double> difference;  // nullopt: not compared
  std::optional<Error> error;        // set if the file's outputs differ
};
// Compares the outputs of the file with the reference outputs; the session that computed them is not needed any more. A
// difference is returned as `error`, or logged as a warning if the untrained model agreed. A check that is impossible
// (out of memory) is logged as a warning.
ExportCheck check_export(const PreparedRun& run, const ExportReference& reference, const WrittenModel& written,
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
