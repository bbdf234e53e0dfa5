// Log lines and records of a training run: the start, profiles, precision_plan.json and run.json.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "backend/plugin.h"
#include "data/table.h"
#include "importer/write/export.h"
#include "precision/cost.h"
#include "precision/decide.h"
#include "run/prepare/prepared_model.h"
#include "trainer/compile/session.h"
#include "trainer/compile/update_profile.h"
#include "trainer/loop/trainer.h"

namespace amp {

struct RunSpec;

// Writes precision_plan.json; the cost is that of a training micro-batch.
void write_plan(const std::string& dir, const SourceGraph& graph, const PrecisionPlan& plan, const PlanCost& cost);
// Logs model, precision, data and memory. rows: number of rows of the first batch, which may be all of the data.
void describe_start(Session& session, const PrecisionPlan& plan, const TrainerConfig& config, int64_t samples,
                    int64_t rows);

void log_profile(const std::map<std::string, double>& seconds_by_operator, const Log& log);  // longest first
void log_profile(const UpdateProfile& update, const Log& log);

double process_seconds();  // seconds since this process started; 0 if unknown

// Facts that a run collects in addition to its result.
struct RunFacts {
  std::optional<double> export_difference;    // compare_export()
  std::optional<Metrics> as_trained;          // the last evaluation in training, if the exported file is evaluated, too
  std::optional<double> first_step_seconds;   // from process start to the end of the first step
  std::optional<PluginMemory> device_memory;  // memory of a GPU at the end of training
  std::optional<UpdateProfile> update;        // `profile` on a GPU
  std::string groups = "{}";                  // groups_json()
  std::vector<SkippedRow> skipped;            // rows that `skip_bad_rows` left out
};

// Returns a warning if losses were not finite, else "".
std::string not_finite_losses_text(const TrainResult& result);

// Writes run.json: effective configuration, hashes, metrics before and after training, timing, versions.
void write_run(const RunSpec& spec, const std::string& dir, const Imported& model, const PrecisionPlan& plan,
               const TrainerConfig& config, const TrainResult& result, const RunFacts& facts, const DataFacts& data,
               bool finished);

double per_second(int64_t n, double seconds);  // 0 if seconds is 0

}  // namespace amp
