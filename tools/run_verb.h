// Runs the verb of a parsed command line.
#pragma once

#include "tools/cli/options.h"

namespace amp {

int run_verb(const cli::Options& opts);  // returns the process's exit code; throws an Error

// Like run_verb, but first prints the command line that another trainer's was translated to, if there is one. With
// --verbose it also prints all settings of that command line.
int run_command(const cli::Command& command);

}  // namespace amp
