// What a RunSpec comes to: the model made ready, the data, the plan, the settings resolved. Nothing is computed yet.
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

// What of the data decides how the model is made ready; kept in the run's folder, so that an export needs no data.
struct DataFacts {
  bool text = false;         // a table with texts
  bool images = false;       // a folder or a table of image files
  bool features = false;     // a table of features; none of these: tensors
  bool sides = false;        // text columns are sequences of their own
  Task task = Task::none;    // how labels are read
  ClassNames classes;        // in the order of the model's outputs
  std::string class_source;  // what the order was taken from, for people
  DataKind kind() const {
    return text ? DataKind::text : images ? DataKind::images : features ? DataKind::features : DataKind::tensors;
  }
};

struct ReadyModel {
  Imported model;  // with its head, dropout and adapters
  Task task = Task::none;
  Objective objective;
  std::vector<int> outputs;  // that the losses read
  Trainable trainable;
  ParamGroups groups;
};
// `facts` and the same settings give the same model, whatever has become of the data.
ReadyModel ready_model(const RunSpec& spec, Job job, Imported model, const DataFacts& facts, const Log& log);

// E_SEQ_LEN (exit 5) for texts longer than the model's position table, with the length that fits, before anything is
// computed. longest_of: tokens of the longest batch.
void require_length(const SourceGraph& graph, const std::vector<int>& outputs, int64_t longest);
int64_t longest_of(const RunSpec& spec, const Dataset& data);

// What a run is prepared for: training in output_dir; knowing what it would take; measuring a precision plan.
enum class Aim { train, estimate, measure_plan };

struct PreparedRun {
  RunSpec spec;
  Host host;
  Aim aim = Aim::train;
  DataFacts facts;
  ReadyModel ready;
  std::unique_ptr<OpenTeacher> teacher;
  std::optional<OutputFolder> folder;        // Aim::train, of the first rank
  std::optional<Checkpoint> checkpoint;      // of other ranks: where the first one's folder goes on from
  std::shared_ptr<const Features> features;  // of a table, learnt
  TrainData data;
  PrecisionPlan plan;
  TrainerConfig config;

  Job job() const { return aim == Aim::measure_plan ? Job::plan : Job::train; }
  SourceGraph& graph() { return ready.model.graph; }
};

// Reads all that training needs, and refuses what it could not do: errors of settings, model, data and folder come from
// here. Writes nothing.
std::unique_ptr<PreparedRun> prepare(const RunSpec& spec, const Host& host = {}, Aim aim = Aim::train);

// The first micro-batch: the longest text, which sets the size of all memory.
Tensors first_batch(PreparedRun& run);

}  // namespace amp
