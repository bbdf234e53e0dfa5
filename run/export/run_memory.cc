// Follows the allocations of try_export() (run/export/export_check.cc) and of the end of a run (run/train/train.cc).
#include "run/export/run_memory.h"

#include <algorithm>
#include <set>

#include "run/export/export_check.h"

namespace amp {
namespace {

// Bytes of the tensors of a model file: all of them, and those that stay in memory (or mapped) besides the Session's
// copies, because release_parameters() frees only weights.
struct FileBytes {
  int64_t all = 0, kept = 0;
};
FileBytes file_bytes(const SourceGraph& g) {
  std::set<const void*> seen;
  FileBytes bytes;
  for (const SourceValue& v : g.values) {
    if (!v.data || !seen.insert(v.data.data()).second) continue;
    bytes.all += v.data.bytes();
    if (v.kind != SourceKind::parameter) bytes.kept += v.data.bytes();
  }
  return bytes;
}

}  // namespace

std::vector<MemoryPhase> memory_phases(const PreparedRun& run, const SessionOptions& options, const MemoryBill& bill) {
  const SourceGraph& g = run.ready.model.graph;
  const MemoryEstimate& training = bill.training;
  const bool cpu = options.device->traits().host_memory, verified = run.spec.output.verify_export;
  std::vector<MemoryPhase> phases;
  if (run.config.max_steps == 0) return phases;

  // The Session that trains computes the outputs `mine`; `theirs` are those of a Session with the written file.
  ForwardEstimate mine, theirs;
  if (verified) {
    std::vector<int> outputs;
    for (const std::string& name : run.config.objective.losses.outputs()) outputs.push_back(g.find(name));
    const std::vector<Tensors> batch{export_batch(run)};
    mine = estimate_forward(g, options, outputs, batch, true);
    theirs = estimate_forward(g, {}, outputs, batch, false);
  }
  const auto [file, kept] = file_bytes(g);
  // The written file is read into a Session, which has its own copy of the weights, and then released.
  const int64_t comparing = std::max(file + theirs.weights, theirs.total());
  // The exporter patches a copy of the file. Trained weights, or merged ones, are stored in it one after the other.
  const int64_t writing = 2 * file;

  const Trial trial = trial_of(run.spec, run.config.max_steps, training.parameters);
  const int64_t session = cpu ? training.parameters + training.copies : training.parameters;
  const int64_t forward = cpu ? mine.activations : 0;
  if (trial.exports) {
    const int64_t checked = trial.compares ? forward + mine.outputs + comparing : 0;
    phases.push_back({"trying the export, before the first step", session + std::max(writing, checked)});
  }
  if (cpu) {
    phases.push_back({"training", training.total() + bill.checkpoint_copy});
    if (bill.evaluation > 0) phases.push_back({"evaluating the validation data", bill.evaluation});
    if (verified) {
      const int64_t more = std::max<int64_t>(0, mine.activations - training.activations);
      phases.push_back({"computing outputs for the comparison, after the last step",
                        training.total() - training.moments + more + mine.outputs});
    }
  }
  phases.push_back(
      {"writing the model, after training's memory is freed", training.parameters + mine.outputs + writing});
  if (verified) phases.push_back({"comparing the written model", mine.outputs + comparing});
  for (MemoryPhase& p : phases) p.bytes += kept;
  return phases;
}

}  // namespace amp
