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
#include "run/model/table_model.h"
#include "run/prepare/common.h"
#include "run/prepare/objective.h"
#include "run/prepare/prepared_model.h"
#include "run/spec/spec.h"
#include "trainer/loop/trainer.h"

namespace amp {

// require_length() throws E_DATA_LENGTH (exit 5) before anything is computed if texts are longer than the model's
// position table; the message states the length that fits. longest_of() returns the sequence length of the longest
// batch, in tokens.
void require_length(const SourceGraph& graph, const std::vector<int>& outputs, int64_t longest,
                    const std::string& hint = "");
// As require_length(), for prompts with their new tokens. fixed: the only length that the graph accepts; 0: any. For
// longer texts throws E_SEQ_LEN (Exit::usage) with fixed_hint.
void require_generated_length(const SourceGraph& graph, int logits, int64_t fixed, int64_t longest,
                              const std::string& hint, const std::string& fixed_hint);
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

// Reads everything that training needs, and writes nothing. Throws the errors of settings, model, data and folder.
std::unique_ptr<PreparedRun> prepare(const RunSpec& spec, const Host& host = {}, Mode mode = Mode::train);

// Returns the micro-batch with the longest texts, which determines how much memory training needs.
Tensors first_batch(PreparedRun& run);

}  // namespace amp
