// Facts about this process and machine, for logs and reports.
#pragma once

#include <cstdint>
#include <string>

namespace amp {

int64_t peak_rss_bytes();  // the most memory this process has had resident; 0 where the system does not tell
std::string host_name();
std::string utc_timestamp();  // now: "2026-11-21T04:30:00Z"

}  // namespace amp
