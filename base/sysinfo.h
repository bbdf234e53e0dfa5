// Facts about this process and machine, for logs and reports.
#pragma once

#include <cstdint>
#include <string>

namespace amp {

int64_t peak_rss_bytes();  // the most memory this process has had resident; 0 where the system does not tell

// The memory this process may use: the machine's, or what its control group (memory.max, memory.limit_in_bytes; the
// smallest up to the root), or a limit of its address space (ulimit -v) leaves of it.
int64_t memory_limit_bytes();
int64_t available_memory_bytes();  // the same, less what the process uses already; 0 at least
// Of a control group, -1 when there is none. root: where the file systems lie, for tests.
int64_t cgroup_memory_limit(const std::string& root = "");

// Where what can be made again is kept: $XDG_CACHE_HOME/onnx-amp-finetune/NAME, else below ~/.cache; "" without either.
std::string cache_path(const std::string& name);

std::string host_name();
// What processes share that reach each other at the loopback address: the running system and its network namespace; the
// host's name where neither can be read.
std::string loopback_identity();
std::string utc_timestamp();  // now: "2026-11-21T04:30:00Z"

}  // namespace amp
