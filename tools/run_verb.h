// Runs the verb of a parsed command line.
#pragma once

#include "tools/cli/options.h"

namespace amp {

int run_verb(const cli::Options& opts);  // returns the process's exit code; throws an Error

// Does the same for a command. If another trainer's command line was translated, it first prints the command line
// of this program, with --verbose also all settings.
int run_command(const cli::Command& command);

}  // namespace amp
