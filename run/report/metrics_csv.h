// The metrics of runs as a table for spreadsheets and data frames.
#pragma once

#include <string>
#include <vector>

namespace amp {

// CSV of metrics.jsonl and eval.jsonl: a row for each step that was done, counted from 1 as TensorBoard has them, the
// evaluation after it in columns eval_NAME of the same row; 0 is the evaluation before training. Empty where there is
// no number. Of several runs a first column names the run. Exit::usage E_RUN: a folder that no run wrote.
std::string metrics_csv(const std::vector<std::string>& run_folders);

}  // namespace amp
