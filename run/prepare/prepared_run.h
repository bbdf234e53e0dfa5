// PreparedRun: the model with head and losses, the data, the precision plan and the resolved settings. Nothing is
// computed yet. prepare() makes it (run/prepare/prepare.h).
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "run/data/data.h"
#include "run/folder/output_folder.h"
#include "run/host.h"
#include "run/model/table_model.h"
#include "run/prepare/common.h"
#include "run/prepare/objective.h"
#include "run/prepare/prepared_model.h"
#include "run/spec/spec.h"
#include "trainer/loop/trainer.h"

namespace amp {

// Purpose of a prepared run: training in output_dir, estimating memory and time, or measuring a precision plan.
enum class Mode { train, estimate, measure_plan };

struct PreparedRun {
  RunSpec spec;
  Host host;
  Mode mode = Mode::train;
  DataFacts facts;
  PreparedModel ready;
  std::unique_ptr<OpenTeacher> teacher;
  std::unique_ptr<CreatedModel> created;     // set if the run created its model for a table
  std::optional<OutputFolder> folder;        // only for Mode::train, on the first rank
  std::optional<Checkpoint> checkpoint;      // only on other ranks: the checkpoint that the first rank resumes from
  std::shared_ptr<const Features> features;  // set only for a table of features
  std::vector<SkippedRow> skipped;           // rows that `skip_bad_rows` left out
  TrainData data;
  PrecisionPlan plan;
  TrainerConfig config;

  Job job() const { return mode == Mode::measure_plan ? Job::plan : Job::train; }
  SourceGraph& graph() { return ready.model.graph; }
};

}  // namespace amp
