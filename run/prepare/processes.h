// Data parallel training in processes that a launcher started (Host::ranks).
#pragma once

namespace amp {

struct RunSpec;
struct Host;
struct PreparedRun;

// Returns the settings with distribution.ranks set to the number of processes. Throws E_RANKS_SETTING for settings that
// need a single process.
RunSpec with_processes(const RunSpec& spec, const Host& host);

// Checks that every rank prepared the same run, then gives all ranks the checkpoint of the first rank's folder. Throws
// E_RANKS (exit 10) with the setting or file that differs.
void share_start(PreparedRun& run);

}  // namespace amp
