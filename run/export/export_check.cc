// The trial export before training and the check after it. A problem of the export (operators, types, disk space) is
// found before training starts; after training a failed check does not discard the model. Large models skip the trial.
#include "run/export/export_check.h"

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/fs.h"
#include "base/remove_quietly.h"
#include "base/temporary.h"
#include "base/text.h"
#include "run/prepare/export_record.h"
#include "run/prepare/prepare.h"
#include "run/spec/spec.h"
#include "trainer/compile/flat_views.h"

namespace amp {

namespace {

// The trial file is also run and compared if the weights have at most this many bytes.
constexpr int64_t kChecked = int64_t{256} << 20;

// A temporary folder for the trial export, removed by the destructor.
class TrialFolder {
 public:
  explicit TrialFolder(const std::string& folder)
      : path_(cat(folder, "/model.onnx.tmp-trial-", ::getpid())),
        registered_(path_),
        registered_file_(file()),
        registered_data_(file() + ".data"),
        registered_adapter_(path_ + "/model.onnx_adapter"),
        registered_slots_(path_ + "/slots.json"),
        registered_config_(path_ + "/adapter_config.json"),
        registered_tensors_(path_ + "/adapter_model.safetensors") {
    remove_tree(path_);
    ensure_dir(path_);
  }
  TrialFolder(const TrialFolder&) = delete;
  TrialFolder& operator=(const TrialFolder&) = delete;
  // A failure to remove the folder must not hide the original failure.
  ~TrialFolder() { remove_quietly(path_.c_str()); }
  // Returns the file that the trial writes. It also writes that name with ".data", and the files of export_adapters().
  std::string file() const { return path_ + "/model.onnx"; }

 private:
  std::string path_;
  TemporaryPath registered_, registered_file_, registered_data_;  // a folder is removed only if it is empty by then
  TemporaryPath registered_adapter_, registered_slots_, registered_config_, registered_tensors_;
};

int64_t weight_bytes(const Session& session) { return session.layout().size() * size_of(session.float_type()); }

[[noreturn]] void fail_before_training(const Error& e, const OutputSpec& output) {
  std::string hint = e.hint();
  if (*output.export_precision != "fp32" && hint.find("export_precision") == std::string::npos)
    hint += cat(hint.empty() ? "" : "; ", "or export with `export_precision` fp32");
  Error out(e.exit(), e.id(), e.fact(), hint);
  for (const std::string& where : e.where()) out.at(where);
  throw out.at("while the model was exported for trial, before training");
}

// Returns free memory to the system at the end of a scope. Otherwise glibc keeps it: the pages of a freed session stay
// in the process between blocks that are in use.
struct ReturnFreeMemory {
  ReturnFreeMemory() = default;
  ReturnFreeMemory(const ReturnFreeMemory&) = delete;
  ReturnFreeMemory& operator=(const ReturnFreeMemory&) = delete;
  ~ReturnFreeMemory() { malloc_trim(0); }
};

// Returns the number of checkpoints that exist at once, including the one that is being written.
int64_t kept_checkpoints(const TrainerConfig& c) {
  if (!c.saves || c.max_steps == 0 || c.save_strategy == SaveStrategy::none) return 0;
  const int64_t saves = c.save_steps > 0 ? (c.max_steps + c.save_steps - 1) / c.save_steps : 2;
  if (c.save_total_limit <= 0) return saves;
  return std::min(saves, c.save_total_limit + 1);
}

}  // namespace

Trial trial_of(const RunSpec& spec, int64_t max_steps, int64_t weights) {
  const bool small = weights <= kChecked;
  if (max_steps == 0 || spec.schedule.lr_range_test > 0) return {};
  if (!small && *spec.output.export_precision == "fp32") return {};
  return {true, small && spec.output.verify_export};
}

bool try_export(PreparedRun& run, Session& session, const std::string& folder) {
  const ReturnFreeMemory at_end;
  const RunSpec& spec = run.spec;
  const Trial planned = trial_of(spec, run.config.max_steps, weight_bytes(session));
  if (!planned.exports) return false;
  try {
    const TrialFolder trial(folder);
    const std::vector<TrainedTensor> tensors = trained_tensors(session);
    if (writes_model(spec.output, run.ready.trainable))
      export_weights(spec.output, run.ready, run.plan, tensors, model_record(run), trial.file(), Log());
    const WrittenModel written = export_adapters(spec.output, run.ready, tensors, spec.model.model, trial.file());
    if (!planned.compares) return false;
    const Losses& losses = run.config.objective.losses;
    const ExportReference reference = export_reference(session, losses, export_batch(run));
    compare_export(reference, written, losses, spec.output.export_types());
    return true;
  } catch (const Error& e) {
    if (e.exit() != Exit::memory) fail_before_training(e, spec.output);
    run.host.log.warning(cat("W_EXPORT_CHECK: the export could not be tried before training: ", e.fact()));
  } catch (const std::bad_alloc&) {
    run.host.log.warning("W_EXPORT_CHECK: the export could not be tried before training: out of memory");
  }
  return false;
}

int64_t checkpoint_bytes(const Session& session, const TrainerConfig& config) {
  const FlatLayout moving = session.moving();
  return moving.trained_size() * 4 + config.optimizer.state_bytes(update_spans(moving), moving.trained_size());
}

void require_disk(const PreparedRun& run, int64_t checkpoint, const std::string& folder) {
  if (run.config.max_steps == 0 || run.spec.schedule.lr_range_test > 0) return;
  std::error_code unknown;
  const auto space = std::filesystem::space(folder, unknown);
  if (unknown) return;
  int64_t model = 0;
  for (const SourceValue& v : run.ready.model.graph.values) model += v.data.bytes();
  const int64_t kept = kept_checkpoints(run.config), needed = kept * checkpoint + model;
  if (static_cast<int64_t>(space.available) >= needed) return;
  fail(Exit::storage, "E_DISK",
       cat("'", printable(folder), "' has ", with_thousands(static_cast<int64_t>(space.available)),
           " B free, the run needs ", with_thousands(needed), " B: ", kept, " checkpoints of ",
           with_thousands(checkpoint), " B (one is written before another is removed) and a model of ",
           with_thousands(model), " B"),
       "free some space, choose another `output_dir`, or keep fewer checkpoints with `save_total_limit`");
}

ExportCheck check_export(const PreparedRun& run, const ExportReference& reference, const WrittenModel& written,
                         bool agreed_before) {
  ExportCheck out;
  const auto compare = [&] {
    try {
      out.difference = compare_export(reference, written, run.config.objective.losses, run.spec.output.export_types());
    } catch (const Error& e) {
      if (e.id() != "E_EXPORT_CHECK" || agreed_before) throw;
      out.error = e;
    }
  };
  warn_of_failure(run.host.log, "the model is written, but its check failed", compare);
  return out;
}

}  // namespace amp
