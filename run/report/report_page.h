// A run's report as a page: one file without outside parts, for a browser, light or dark, wide or narrow. Its content
// security policy lets nothing run but its own script, whatever a run's data hold.
#pragma once

#include <string>
#include <vector>

#include "run/report/report_data.h"

namespace amp {

// From the files of finished, stopped or running runs (run/report/report_data.h); with several folders one page compares them.
std::string report_page(const std::vector<std::string>& run_folders);

// data: {"runs": [ReportData::read() ..], "running": whether they go on, "updated": seconds since 1970}
std::string page_of(const nlohmann::json& data);
nlohmann::json page_data(std::vector<nlohmann::json> runs, bool running);

// The same runs as a table of text, a line each: time, memory, and the metrics that a summary tells; in parentheses
// time and memory as multiples of the first run's.
std::string report_table(const std::vector<std::string>& run_folders);

inline constexpr const char* kReportFile = "report.html";
// Its own, into it.
void write_report_page(const std::string& run_folder);
void write_report_page(const std::string& run_folder, ReportData& data, bool running);

}  // namespace amp
