// Exports the metrics of runs as CSV.
#pragma once

#include <string>
#include <vector>

namespace amp {

// Returns the CSV of metrics.jsonl and eval.jsonl: one row per step, counted from 1 as in TensorBoard. The evaluation
// after a step is in the columns eval_NAME of its row; row 0 is the evaluation before training. Missing numbers are
// empty cells.
// With several runs the first column names the run. Exit::usage E_RUN if a folder contains no run.
std::string metrics_csv(const std::vector<std::string>& run_folders);

}  // namespace amp
