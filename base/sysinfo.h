// Facts about this process and machine, for logs and reports.
#pragma once

#include <cstdint>
#include <string>

namespace amp {

int64_t peak_rss_bytes();  // peak resident memory of this process; 0 if unknown

// Returns the memory that this process may use: the smallest of the machine's memory, the limits of its control groups
// (memory.max, memory.limit_in_bytes), and that of its address space (ulimit -v).
int64_t memory_limit_bytes();
int64_t mapped_bytes();            // size of this process's address space, which RLIMIT_AS limits; 0 if unknown
int64_t available_memory_bytes();  // memory_limit_bytes() minus the memory in use; at least 0
// Returns the limit of the control group; -1 if there is none. root: prefix of the file systems, for tests.
int64_t cgroup_memory_limit(const std::string& root = "");

// Returns the path for cached data that can be recreated: $XDG_CACHE_HOME/onnx-amp-finetune/NAME, else below ~/.cache.
// Returns "" if neither variable is set.
std::string cache_path(const std::string& name);

std::string host_name();
// Identifies processes that can reach each other at the loopback address. Returns the boot id and the network
// namespace, or the host name if these cannot be read.
std::string loopback_identity();
std::string utc_timestamp();  // now: "2026-11-21T04:30:00Z"

}  // namespace amp
