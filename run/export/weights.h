// Which weights of a run are exported, and the file that they go to.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "importer/write/export.h"
#include "run/prepare/prepare.h"

namespace amp {

// Copies the checkpoint's parameters into the session: all of `trained`, by name.
void load_weights(Session& session, const Checkpoint& checkpoint, const std::vector<std::string>& trained);
// The moving average (OptimizerConfig::average_name) in the place of what has one: what does not train has none,
// running statistics neither (torch.optim.swa_utils keeps buffers so).
void load_average(Session& session, const Checkpoint& checkpoint, const std::string& name);
std::vector<std::string> trained_names(const Session& session);  // with running statistics

// The session's weights; they stay when the session goes.
std::vector<TrainedTensor> trained_tensors(const Session& session);

// Such weights as a model file. metadata: to set in it. Notes of the export are told. keep_refused: ExportOptions'.
void export_weights(const RunSpec& spec, const ReadyModel& ready, const PrecisionPlan& plan,
                    std::vector<TrainedTensor> tensors, const std::map<std::string, std::string>& metadata,
                    const std::string& path, const Log& log, bool keep_refused = false);

// What a session computes, kept beyond it: it and the file that is compared need not be in memory together.
struct ExportReference {
  Tensors batch, outputs;
  std::map<std::string, HostTensor> fixed;  // inputs whose values are bound as constants
  bool stored_low = false;                  // the model stores weights in 16 bits
};
ExportReference export_reference(Session& session, const Losses& losses, const Tensors& batch);
// Runs the exported file on a batch and compares its loss outputs with the reference's, in fp32. Returns the largest
// difference; Exit::internal (E_EXPORT_CHECK) when it is beyond 1e-4 (fp16: 1e-2) of the largest output.
double compare_export(const ExportReference& reference, const std::string& path, const Losses& losses,
                      const std::string& precision);
// The first rows of the validation data, or else of the training data: 8, or a micro-batch where that has fewer.
Tensors export_batch(const PreparedRun& run);

}  // namespace amp
