// Loads the weights of a run, writes them to a model file and compares that file with the session.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "importer/write/export.h"
#include "precision/decide.h"
#include "run/prepare/prepared_model.h"
#include "trainer/compile/session.h"
#include "trainer/loop/checkpoint.h"

namespace amp {

struct OutputSpec;
struct PreparedRun;

// Copies the parameters in `trained` from the checkpoint into the session, by name.
void load_weights(Session& session, const Checkpoint& checkpoint, const std::vector<std::string>& trained);
// Replaces parameters by their moving average (OptimizerConfig::average_name). Frozen tensors and running statistics
// have none (torch.optim.swa_utils treats buffers the same way).
void load_average(Session& session, const Checkpoint& checkpoint, const std::string& name);
std::vector<std::string> trained_names(const Session& session);  // includes running statistics

// Returns the session's weights; they outlive the session.
std::vector<TrainedTensor> trained_tensors(const Session& session);

// Writes the weights to a model file. metadata: entries to set in it. Logs the notes of the export. keep_refused: see
// ExportOptions.
void export_weights(const OutputSpec& output, const PreparedModel& ready, const PrecisionPlan& plan,
                    std::vector<TrainedTensor> tensors, const std::map<std::string, std::string>& metadata,
                    const std::string& path, const Log& log, bool keep_refused = false);

// Outputs of a session, stored so that the session and the compared file need not be in memory together.
struct ExportReference {
  Tensors batch, outputs;
  std::map<std::string, HostTensor> fixed;  // inputs bound as constants
  bool stored_low = false;                  // the model stores weights in 16 bits
};
ExportReference export_reference(Session& session, const Losses& losses, const Tensors& batch);
// Runs the exported file on the reference's batch in fp32 and compares its loss outputs. Returns the largest
// difference. Exit::internal (E_EXPORT_CHECK) if it exceeds 1e-4 (1e-2 for 16-bit files) of the largest output.
double compare_export(const ExportReference& reference, const std::string& path, const Losses& losses,
                      const std::string& precision);
// Returns the first rows of the validation data, else of the training data: 8, or a micro-batch if that is smaller.
Tensors export_batch(const PreparedRun& run);

}  // namespace amp
