// A run's report as a page: one file without outside parts, for a browser, light or dark, wide or narrow.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace amp {

// Its run.json. Exit::usage E_RUN: a folder that no run wrote.
nlohmann::json run_record(const std::string& run_folder);

// From metrics.jsonl, eval.jsonl and run.json of finished, stopped or running runs; with several folders one page
// compares them. Of a long run every n-th step is drawn, and all that were skipped.
std::string report_page(const std::vector<std::string>& run_folders);

// The same runs as a table of text, a line each: time, memory, and the metrics that a summary tells; in parentheses
// time and memory as multiples of the first run's.
std::string report_table(const std::vector<std::string>& run_folders);

inline constexpr const char* kReportFile = "report.html";
void write_report_page(const std::string& run_folder);  // its own, into it

}  // namespace amp
