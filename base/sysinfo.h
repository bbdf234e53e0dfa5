// Facts about this process and machine, for logs and reports.
#pragma once

#include <cstdint>
#include <string>

namespace amp {

int64_t peak_rss_bytes();  // peak resident memory of this process in bytes; 0 if unknown

// Returns the memory that this process may use: the minimum of the machine's memory, the limits of the process's
// control groups (memory.max, memory.limit_in_bytes), and the limit of its address space (ulimit -v).
int64_t memory_limit_bytes();
int64_t mapped_bytes();            // size of this process's address space, which RLIMIT_AS limits; 0 if unknown
int64_t available_memory_bytes();  // memory_limit_bytes() minus the memory in use; at least 0
// Returns the memory limit of the control group; -1 if there is none. root: prefix of the file systems, for tests.
int64_t cgroup_memory_limit(const std::string& root = "");

// Returns the path for cached data that can be recreated: $XDG_CACHE_HOME/onnx-amp-finetune/NAME, or a path below
// ~/.cache if that variable is not set. Returns "" if HOME is not set either.
std::string cache_path(const std::string& name);

std::string host_name();
// Returns a text that is equal for processes that can reach each other at the loopback address: the boot id
// and the network namespace, or the host name if these cannot be read.
std::string loopback_identity();
std::string utc_timestamp();  // the current time as "2026-11-21T04:30:00Z"

}  // namespace amp
