// Runs the verb of a parsed command line.
#pragma once

#include "tools/cli/options.h"

namespace amp {

int run_verb(const cli::Options& opts);  // returns the process's exit code; throws an Error

// Like run_verb, but first prints the translated command line, if there is one; with --verbose all its settings.
int run_command(const cli::Command& command);

}  // namespace amp
