// The data of a run's report as JSON, from the files in its folder: metrics.jsonl, eval.jsonl, run.json, samples.json,
// precision_plan.json. Its size is bounded for any run length.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "run/report/jsonl_reader.h"

namespace amp {

// Returns the folder's run.json. Exit::usage E_RUN if the folder contains no run.
nlohmann::json run_record(const std::string& run_folder);

// Reads one run's report repeatedly while the run continues. Only new lines of its logs are read.
class ReportData {
 public:
  explicit ReportData(std::string folder);
  nlohmann::json read();

 private:
  std::string folder_;
  JsonlReader steps_file_, evals_file_;
  Thinned steps_, evals_;
  int64_t count_ = 0, skipped_ = 0;
  std::optional<nlohmann::json> plan_;
};

// Returns JSON text that is safe inside a <script> element: no tag in it can end the script.
std::string page_json(const nlohmann::json& data);

}  // namespace amp
