// What a training run says at its start and end, and what it writes beside the model.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "backend/plugin.h"
#include "importer/export.h"
#include "precision/cost.h"
#include "tools/cli/options.h"
#include "tools/common.h"
#include "trainer/trainer.h"
#include "trainer/update_profile.h"

namespace amp {

// precision_plan.json; the cost is that of a training micro-batch.
void write_plan(const std::string& dir, const SourceGraph& graph, const PrecisionPlan& plan, const PlanCost& cost);
void describe_start(Session& session, const PrecisionPlan& plan, const TrainerConfig& config, int64_t samples);

void print_profile(const std::map<std::string, double>& seconds_by_operator);  // longest first
void print_profile(const UpdateProfile& update);

double process_seconds();  // since this process was started; 0 where the system does not tell

// What a run found out about itself, beside its result.
struct RunFacts {
  std::optional<double> export_difference;    // verify_export()
  std::optional<Metrics> as_trained;          // the last evaluation, where the file's metrics are others
  std::optional<double> first_step_seconds;   // from the start of the process to the end of its first step
  std::optional<PluginMemory> device_memory;  // of a GPU, when training ended
  std::optional<UpdateProfile> update;        // --profile on a GPU
};

// Runs the exported file on one batch and compares its loss outputs with the session's, in fp32. Returns the largest
// difference;
// Exit::internal (E_EXPORT_CHECK) when it is beyond 1e-4 (fp16: 1e-2) of the largest output.
double verify_export(Session& session, const std::string& path, const Losses& losses, const Dataset& data,
                     const std::string& precision);

// run.json: effective configuration, hashes, metrics before and after, timing, versions.
void write_run(const cli::Options& opts, const std::string& dir, const Imported& model, const PrecisionPlan& plan,
               const TrainerConfig& config, const TrainResult& result, const RunFacts& facts,
               const std::vector<std::string>& classes, bool finished);

void print_summary(const std::string& model_path, const TrainResult& result, const std::string& val);

}  // namespace amp
