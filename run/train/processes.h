// Data parallel training by processes that a launcher started (Host::ranks).
#pragma once

#include "run/prepare/prepare.h"

namespace amp {

// --ranks of several processes is their number. E_RANKS for settings that need one process.
RunSpec with_processes(const RunSpec& spec, const Host& host);

// Every rank prepared the same: E_RANKS (exit 10) with the setting or file that differs. Afterwards all have the
// checkpoint of the first one's folder.
void share_start(PreparedRun& run);

}  // namespace amp
