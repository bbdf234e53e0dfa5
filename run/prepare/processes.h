// Data parallel training by processes that a launcher started (Host::ranks).
#pragma once

namespace amp {

struct RunSpec;
struct Host;
struct PreparedRun;

// Sets distribution.ranks to the number of processes. E_RANKS for settings that need a single process.
RunSpec with_processes(const RunSpec& spec, const Host& host);

// Checks that every rank prepared the same run: E_RANKS (exit 10) names the setting or file that differs. Then gives
// all ranks the checkpoint of the first rank's folder.
void share_start(PreparedRun& run);

}  // namespace amp
