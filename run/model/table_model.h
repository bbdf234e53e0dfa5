// Creates the models `tabular` and `mlp` with the sizes that a table needs: rows of the embedding tables, numbers and
// outputs.
#pragma once

#include <memory>
#include <string>

#include "base/log.h"
#include "run/data/data.h"
#include "run/model/build.h"
#include "run/spec/spec.h"

namespace amp {

bool is_table_architecture(const std::string& name);  // tabular or mlp

// Returns the settings with a `target`: if none is given, the value of `label_column`. Throws E_USAGE (Exit::usage)
// if `train` is not a table.
RunSpec with_table_target(RunSpec spec);

// A table of features, read once for the creation of a model and the training on it.
struct ReadTable {
  RunSpec spec;  // with the columns that were chosen
  std::shared_ptr<const FeatureTable> table;
  Task task = Task::none;
  DataLabels labels;
};

// Reads `train`, and chooses columns and task where they are not given. Applies with_table_target().
// training: also chooses `val_split`, `target_transform` and the settings of training that suit a new model, where they
// are not given, and logs them.
ReadTable read_for_model(const RunSpec& spec, bool training, const Log& log);

// Writes `out`: build.model with random weights and the sizes of the table, which are logged. build.config overrides
// keys. Throws the errors of create_model() and of tables (run/data/features.h).
BuiltModel create_for_table(BuildSpec build, const ReadTable& read, const std::string& out, const Log& log);

// A model file that a run created for its table.
class CreatedModel {
 public:
  // kept: the file stays when the object is destroyed.
  CreatedModel(std::string path, bool kept);
  CreatedModel(const CreatedModel&) = delete;
  CreatedModel& operator=(const CreatedModel&) = delete;
  ~CreatedModel();
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  bool kept_;
};

// Returns whether `model` names an architecture for tables, and no file.
bool wants_table_model(const RunSpec& spec);
// Writes the model of a run on a table: OUTPUT_DIR-tabular.onnx (kept), or a temporary file. Throws E_OUTPUT_FOREIGN
// (Exit::usage) if the kept file exists and is not an untrained model of `create`.
std::unique_ptr<CreatedModel> create_run_model(const ReadTable& read, bool kept, const Log& log);

}  // namespace amp
