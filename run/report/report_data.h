// What a run's report shows, as JSON, from the files in its folder: metrics.jsonl, eval.jsonl, run.json, samples.json,
// precision_plan.json. It is bounded however long the run and whatever its data hold.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "run/report/growing_lines.h"

namespace amp {

// Its run.json. Exit::usage E_RUN: a folder that no run wrote.
nlohmann::json run_record(const std::string& run_folder);

// One run's report, again and again while it goes on: of its logs only what is new is read.
class ReportData {
 public:
  explicit ReportData(std::string folder);
  nlohmann::json read();

 private:
  std::string folder_;
  GrowingLines steps_file_, evals_file_;
  Thinned steps_, evals_;
  int64_t count_ = 0, skipped_ = 0;
  std::optional<nlohmann::json> plan_;
};

// JSON text that stands in a page: no tag of it can end the script that it lies in.
std::string page_json(const nlohmann::json& data);

}  // namespace amp
