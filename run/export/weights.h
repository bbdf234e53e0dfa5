// Loads the weights of a run, writes them to a model file and compares that file with the session.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "importer/write/export.h"
#include "precision/decide.h"
#include "run/export/adapters.h"
#include "run/prepare/prepared_model.h"
#include "trainer/compile/session.h"
#include "trainer/loop/checkpoint.h"

namespace amp {

struct OutputSpec;
struct PreparedRun;

// Copies the parameters that `trained` names from the checkpoint into the session.
void load_weights(Session& session, const Checkpoint& checkpoint, const std::vector<std::string>& trained);
// Replaces parameters by their moving average, which has the name OptimizerConfig::average_name. Frozen tensors and
// running statistics have no average (as buffers in torch.optim.swa_utils) and stay unchanged.
void load_average(Session& session, const Checkpoint& checkpoint, const std::string& name);
// Parameters and running statistics that training changes.
std::vector<std::string> trained_names(const Session& session);

// Returns copies of the session's weights, which stay valid after the session is destroyed.
std::vector<TrainedTensor> trained_tensors(const Session& session);

// Writes the weights to a model file and logs the notes of the export. metadata: entries to set in the file.
// keep_refused: see ExportOptions.
void export_weights(const OutputSpec& output, const PreparedModel& ready, const PrecisionPlan& plan,
                    std::vector<TrainedTensor> tensors, const std::map<std::string, std::string>& metadata,
                    const std::string& path, const Log& log, bool keep_refused = false);

// Outputs of a session, stored so that the session and the compared file need not be in memory together.
struct ExportReference {
  Tensors batch, outputs;
  std::map<std::string, HostTensor> fixed;  // inputs that are bound as constants, by name
  bool stored_low = false;                  // the original model stores weights in 16-bit types
};
ExportReference export_reference(Session& session, const Losses& losses, const Tensors& batch);
// Runs the exported file on the reference's batch in fp32 and compares the outputs that the losses read. Returns the
// largest difference. Throws E_EXPORT_CHECK (Exit::internal) if it exceeds 1e-4 (1e-2 for 16-bit files) of the largest
// output.
double compare_export(const ExportReference& reference, const WrittenModel& written, const Losses& losses,
                      const std::string& precision);
// Returns the first 8 rows of the validation data, else of the training data; fewer if a micro-batch has fewer rows.
Tensors export_batch(const PreparedRun& run);

}  // namespace amp
