// PreparedRun: the model with head and losses, the data, the precision plan and the resolved settings. Nothing is
// computed yet.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "run/data/data.h"
#include "run/folder/output_folder.h"
#include "run/host.h"
#include "run/model/surgery.h"
#include "run/prepare/common.h"
#include "run/prepare/objective.h"
#include "run/prepare/param_groups.h"
#include "trainer/loop/trainer.h"

namespace amp {

// Facts about the training data that model preparation depends on. They are stored in the run's folder, so that an
// export needs no data.
struct DataFacts {
  bool text = false;         // a table of texts
  bool images = false;       // a folder or a table of image files
  bool features = false;     // a table of features; none of the three: a file of tensors
  bool sides = false;        // each text column is a separate sequence
  Task task = Task::none;    // how labels are read
  ClassNames classes;        // in the order of the model's outputs
  std::string class_source;  // source of the order, for messages
  DataKind kind() const {
    return text ? DataKind::text : images ? DataKind::images : features ? DataKind::features : DataKind::tensors;
  }
};

struct PreparedModel {
  Imported model;  // with its head, dropout and adapters
  Task task = Task::none;
  Objective objective;
  std::vector<int> outputs;  // graph values that the losses read
  Trainable trainable;
  ParamGroups groups;
};
// Adds head, dropout and adapters, chooses the objective and the trainable parameters. The result depends on `facts`
// and the settings only, not on the data files.
PreparedModel prepare_model(const RunSpec& spec, Job job, Imported model, const DataFacts& facts, const Log& log);

// Fails with E_SEQ_LEN (exit 5) before anything is computed if texts are longer than the model's position table; the
// message states the length that fits. longest_of: tokens of the longest batch.
void require_length(const SourceGraph& graph, const std::vector<int>& outputs, int64_t longest);
int64_t longest_of(const TextSpec& text, const Dataset& data);

// Purpose of a prepared run: training in output_dir, estimating memory and time, or measuring a precision plan.
enum class Mode { train, estimate, measure_plan };

struct PreparedRun {
  RunSpec spec;
  Host host;
  Mode mode = Mode::train;
  DataFacts facts;
  PreparedModel ready;
  std::unique_ptr<OpenTeacher> teacher;
  std::optional<OutputFolder> folder;        // Mode::train, first rank only
  std::optional<Checkpoint> checkpoint;      // other ranks: the checkpoint that the first rank resumes from
  std::shared_ptr<const Features> features;  // fitted on a table of features
  TrainData data;
  PrecisionPlan plan;
  TrainerConfig config;

  Job job() const { return mode == Mode::measure_plan ? Job::plan : Job::train; }
  SourceGraph& graph() { return ready.model.graph; }
};

// Reads everything that training needs. Errors of settings, model, data and folder are raised here. Writes nothing.
std::unique_ptr<PreparedRun> prepare(const RunSpec& spec, const Host& host = {}, Mode mode = Mode::train);

// Returns the micro-batch with the longest texts, which determines the size of all memory.
Tensors first_batch(PreparedRun& run);

}  // namespace amp
