// What a training run says at its start and end, and what it writes beside the model.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "backend/plugin.h"
#include "importer/write/export.h"
#include "precision/cost.h"
#include "run/prepare/prepare.h"
#include "trainer/compile/update_profile.h"
#include "trainer/loop/trainer.h"

namespace amp {

// precision_plan.json; the cost is that of a training micro-batch.
void write_plan(const std::string& dir, const SourceGraph& graph, const PrecisionPlan& plan, const PlanCost& cost);
// rows: of the first batch, which may be all of the data.
void describe_start(Session& session, const PrecisionPlan& plan, const TrainerConfig& config, int64_t samples,
                    int64_t rows);

void tell_profile(const std::map<std::string, double>& seconds_by_operator, const Log& log);  // longest first
void tell_profile(const UpdateProfile& update, const Log& log);

double process_seconds();  // since this process was started; 0 where the system does not tell

// What a run found out about itself, beside its result.
struct RunFacts {
  std::optional<double> export_difference;    // compare_export()
  std::optional<Metrics> as_trained;          // the last evaluation, where the file's metrics are others
  std::optional<double> first_step_seconds;   // from the start of the process to the end of its first step
  std::optional<PluginMemory> device_memory;  // of a GPU, when training ended
  std::optional<UpdateProfile> update;        // --profile on a GPU
  std::string groups = "{}";                  // groups_json()
  int64_t losses_not_finite = 0;              // training steps whose loss was NaN or infinite
};

// A warning about them; empty: there are none.
std::string not_finite_losses_text(const RunFacts& facts, int64_t steps);

// run.json: effective configuration, hashes, metrics before and after, timing, versions.
void write_run(const RunSpec& spec, const std::string& dir, const Imported& model, const PrecisionPlan& plan,
               const TrainerConfig& config, const TrainResult& result, const RunFacts& facts, const DataFacts& data,
               bool finished);

std::string isa_name();                        // the level of SIMD in use: "x86-64-v4"
double per_second(int64_t n, double seconds);  // 0 when no time passed

}  // namespace amp
