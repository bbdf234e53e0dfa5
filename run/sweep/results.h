// Reads the state and the results of a sweep's runs from their folders, and formats them as tables.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "run/sweep/pruning.h"
#include "run/sweep/space.h"

namespace amp {

inline constexpr const char* kSweepRecord = "sweep.json";
inline constexpr const char* kSweepTable = "sweep.csv";

struct SweepRun {
  enum class State { waiting, running, finished, pruned, failed, stopped };
  SweepTrial trial;
  std::string folder;
  nlohmann::json same = {};  // the settings that a continued run must share, by name
  State state = State::waiting;
  int64_t pruned_at = 0;  // State::pruned: the step
  int exit_code = 0;      // State::failed
  std::string reason;     // State::failed and pruned: for the user
};

// The state of a run, read from its folder. Empty if there is no run yet.
struct RunProgress {
  std::string metric;   // the run's `metric_for_best_model`
  int64_t planned = 0;  // number of steps of the whole run; 0: unknown
  bool finished = false;
  std::vector<nlohmann::json> evaluations;  // the lines of eval.jsonl
  nlohmann::json end = nullptr;             // final_metrics: those of model.onnx
  int64_t steps = 0;                        // finished: attempted steps
  std::vector<std::string> metrics;         // names of the metrics in summaries, `metric` first
  MetricCurve curve() const;                // of `metric`
  bool lower_is_better() const;             // of `metric`
};
RunProgress read_progress(const std::string& folder);

// A line of the tables: the metrics of model.onnx for a finished run, of the evaluation at the pruned step for a
// pruned one, and none for others.
struct SweepResult {
  const SweepRun* run = nullptr;
  int64_t steps = 0;
  std::vector<double> values;  // one for each of SweepTable::metrics; NaN: there is no value
};

struct SweepTable {
  std::vector<std::string> metrics;  // the runs are ranked by the first one
  std::vector<SweepResult> rows;     // in the order of the space
  int best = -1;                     // index of the best finished run; -1: there is none
};
SweepTable sweep_table(const std::vector<SweepRun>& runs);
std::string sweep_csv(const SweepTable& table);
// Returns the table as text: the best run first, marked by *, then the others by rank, pruned and failed runs last.
std::string sweep_text(const SweepTable& table);

// Returns "finished", "pruned at step 40", "failed (exit 8)" ...
std::string state_text(const SweepRun& run);

}  // namespace amp
