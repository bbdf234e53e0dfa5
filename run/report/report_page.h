// The report of runs as a self-contained HTML page with light, dark and narrow layouts. Its content security policy
// allows only its own script, whatever the run's data contain.
#pragma once

#include <string>
#include <vector>

#include "run/report/report_data.h"

namespace amp {

// Builds the page from the files of finished, stopped or running runs (run/report/report_data.h). With several folders
// the page compares them.
std::string report_page(const std::vector<std::string>& run_folders);

// data: {"runs": [ReportData::read() ..], "running": true if they continue,
// "lower_is_better": names of metrics, "updated": seconds since 1970}. A run may have a "note", which its name shows.
std::string page_of(const nlohmann::json& data);
// Returns the page's content security policy, for servers that send it as a header.
std::string page_policy();
nlohmann::json page_data(std::vector<nlohmann::json> runs, bool running);

// Returns a text table with one line per run: the settings in which the runs differ, time, memory, and the metrics of
// summaries, with * after the best one. Times and memory are also given as multiples of the first run's, in
// parentheses.
std::string report_table(const std::vector<std::string>& run_folders);

inline constexpr const char* kReportFile = "report.html";
// Write the run's page into its folder.
void write_report_page(const std::string& run_folder);
void write_report_page(const std::string& run_folder, ReportData& data, bool running);

}  // namespace amp
