// Exports that are checked: once before training, with the first weights, and at its end. What can fail fails at the
// start; at the end no failure of a check loses the model.
#pragma once

#include <new>
#include <optional>
#include <string>

#include "run/export/weights.h"
#include "run/prepare/prepare.h"

namespace amp {

// Exports the untrained model as the run will, checks it as the run will, and removes it again. Throws what the export
// at the end would, with a hint. Above 256 MB of weights a check in fp32 is left to the end: nothing is converted, and
// an export of the same nodes can fail for want of space alone (require_disk). True: its outputs were compared and
// agree, so that a difference after training is one of rounding.
bool try_export(PreparedRun& run, Session& session, const std::string& folder);
// The memory of that trial: the weights that train, and the file, or its import and the graph that runs it. 0: there is
// none. weights: their bytes.
int64_t trial_bytes(const RunSpec& spec, int64_t max_steps, int64_t weights);

// E_DISK (Exit::storage) when the folder's file system has no room for the checkpoints and the model of the run.
// checkpoint: bytes of one.
void require_disk(const PreparedRun& run, int64_t checkpoint, const std::string& folder);
int64_t checkpoint_bytes(const Session& session, const TrainerConfig& config);

// What a check of a written file came to.
struct ExportCheck {
  std::optional<double> difference;  // none: it was not compared
  std::optional<Error> error;        // the file differs
};
// Compares path with what the session computed, which need not be there any more. A check that cannot be made (memory)
// is a warning, and so is a difference where the untrained model agreed.
ExportCheck check_export(const PreparedRun& run, const ExportReference& reference, const std::string& path,
                         bool agreed_before);

// f(), whose failure is a warning "W_EXPORT_CHECK: WHAT: ..."; false then.
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
